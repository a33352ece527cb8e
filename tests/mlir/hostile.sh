#!/usr/bin/env bash
# Owns: damaged files of MLIR: whatever becomes of MLIR's parsers, qfuse-mlir and qfuse end with a graph or with one error.
# Does not own: damaged modules in memory (mutations.c).
# Next: tools/mlir/child.c. Usage: hostile.sh QFUSE_MLIR QFUSE CORPUS
set -uo pipefail
qfuse_mlir=$1 qfuse=$2 corpus=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export QFUSE_MLIR=$qfuse_mlir
runs=0 refused=0 faults=0

# survives FILE [PATTERN]: exit code 0 and no error, or 1 and one error (that matches).
survives() {
    local found=0 errors
    timeout 240 "$qfuse_mlir" --max-nodes=20000 "$1" >"$folder/out" 2>"$folder/err" || found=$?
    errors=$(grep -c '^error: ' "$folder/err")
    runs=$((runs + 1))
    [ "$found" -eq 0 ] || refused=$((refused + 1))
    if [ "$found" -gt 1 ] || [ "$errors" -ne "$found" ] || { [ $# -gt 1 ] && ! grep -q -- "$2" "$folder/err"; }; then
        echo "$1: exit code $found, $errors errors${2+, expected one like '$2'}:"
        head -n 5 "$folder/err"
        faults=$((faults + 1))
    fi
}

repeated() { printf "%.0s$1" $(seq "$2"); }

echo 'not MLIR at all {' >"$folder/words.mlir"
survives "$folder/words.mlir" 'words.mlir:1:1'
: >"$folder/empty.mlir"
survives "$folder/empty.mlir" 'no function'
survives "$folder/missing.mlir" 'No such file'
mkdir "$folder/folder.mlir"
survives "$folder/folder.mlir" 'not a regular file'
# 40 kB of nested attribute overflow the stack of MLIR's parser.
{ printf '"builtin.module"() ({}) {a = '; repeated '[' 60000; repeated ']' 60000; printf '} : () -> ()\n'; } >"$folder/deep.mlir"
survives "$folder/deep.mlir"
{ repeated '"builtin.module"() ({\n' 20000; repeated '}) : () -> ()\n' 20000; } >"$folder/regions.mlir"
survives "$folder/regions.mlir"
printf '#loop = loc("a" at #loop)\n"builtin.module"() ({}) : () -> () loc(#loop)\n' >"$folder/alias.mlir"
survives "$folder/alias.mlir"
# Every call twice the one before: 2^60 operations.
{
    echo 'func.func @f0(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }'
    for i in $(seq 60); do
        echo "func.func @f$i(%x: tensor<f32>) -> tensor<f32> { %a = func.call @f$((i - 1))(%x) : (tensor<f32>) -> tensor<f32>"
        echo "%b = func.call @f$((i - 1))(%a) : (tensor<f32>) -> tensor<f32> return %b : tensor<f32> }"
    done
    echo 'func.func @main(%x: tensor<f32>) -> tensor<f32> { %a = func.call @f60(%x) : (tensor<f32>) -> tensor<f32> return %a : tensor<f32> }'
} >"$folder/doubling.mlir"
survives "$folder/doubling.mlir" 'more than 20000 operations'
echo 'stablehlo.constant dense<0> : tensor<i32>' >"$folder/pretty.mlir"
survives "$folder/pretty.mlir" 'mlir-print-op-generic'
printf '"builtin.module"() ({\n"vhlo.func_v1"() ({}) : () -> ()\n}) : () -> ()\n' >"$folder/vhlo.mlir"
survives "$folder/vhlo.mlir" 'stablehlo-translate --deserialize'
# qfuse says the same, once.
found=0
"$qfuse" explain "$folder/pretty.mlir" >"$folder/out" 2>"$folder/err" || found=$?
{ [ "$found" -eq 1 ] && [ "$(grep -c 'error:' "$folder/err")" -eq 1 ] && grep -q 'mlir-print-op-generic' "$folder/err"; } ||
    { echo "qfuse explain pretty.mlir: exit code $found"; cat "$folder/err"; faults=$((faults + 1)); }
found=0
QFUSE_MLIR=$folder/none "$qfuse" explain "$folder/words.mlir" >"$folder/out" 2>"$folder/err" || found=$?
{ [ "$found" -eq 1 ] && grep -q 'QFUSE_MLIR' "$folder/err"; } || { echo "qfuse without qfuse-mlir: $found"; faults=$((faults + 1)); }

# {x.a = [["x"]]} in bytecode, the inner array exchanged for the outer one: MLIR 22 reads on for ever.
base64 --decode >"$folder/cycle.mlirbc" <<'END'
TUzvUg1NTElSMjIuMS44AAENAwEDAQMHAxcPAQEPEwsPDwsTCwIpAwMDBQUFAQMHAQMJCQcXDQMD
BQkEGQUBUQsBAQcEBwMBAQYDAQUBAEULDwUJDxFidWlsdGluAG1vZHVsZQB4LmEAeABhLm1saXIA
CAkDBQEB
END
survives "$folder/cycle.mlirbc" 'MLIR .* while it read the file'
# Who is killed leaves nobody at work: the pipe has no writer any more.
timeout 6 cat < <(timeout --foreground --signal=KILL 1 "$qfuse_mlir" "$folder/cycle.mlirbc" 2>/dev/null) >"$folder/out" ||
    { echo "cycle.mlirbc: a process works on after its parent was killed"; faults=$((faults + 1)); }
# qfuse as well, which waits for qfuse-mlir.
timeout 8 cat < <(timeout --foreground --signal=KILL 1 "$qfuse" explain "$folder/cycle.mlirbc" 3>&1 >/dev/null 2>&1) >"$folder/out" ||
    { echo "cycle.mlirbc: qfuse-mlir works on after qfuse was killed"; faults=$((faults + 1)); }

# says PATTERN COMMAND...: exit code 1 and one error like PATTERN.
says() {
    local pattern=$1 found=0
    shift
    "$@" 2>"$folder/err" >"$folder/out" || found=$?
    { [ "$found" -eq 1 ] && [ "$(grep -c 'error: ' "$folder/err")" -eq 1 ] && grep -q -- "$pattern" "$folder/err"; } ||
        { echo "$*: expected one error like '$pattern', found exit code $found and:"; cat "$folder/err"; faults=$((faults + 1)); }
}
small=$corpus/jax_nn_bias/model.generic.mlir
# Nowhere to write to: the result, and what is kept of it before.
says 'cannot be written' sh -c '"$0" "$1" >&-' "$qfuse_mlir" "$small"
[ ! -w /dev/full ] || says 'cannot be written: No space' sh -c '"$0" "$1" >/dev/full' "$qfuse_mlir" "$small"
for program in "$qfuse_mlir" "$qfuse explain"; do
    # shellcheck disable=SC2016
    says 'kept in a temporary file' bash -c 'trap "" XFSZ; ulimit -f 1; exec $1 "$2" >/dev/null' bash "$program" "$small"
done
# What cannot be run at all.
QFUSE_MLIR=$folder says 'cannot run qfuse-mlir: Permission denied' "$qfuse" explain "$small"
# A caller that ignores the signals that are waited for.
says 'No such file' bash -c 'trap "" CHLD PROF; exec "$1" "$2"' bash "$qfuse_mlir" "$folder/missing.mlir"
says 'MLIR .* while it read the file' bash -c 'trap "" CHLD PROF; exec "$1" "$2"' bash "$qfuse_mlir" "$folder/cycle.mlirbc"

# Mutations from a fixed seed: text and bytecode, bytes replaced, cut out and doubled. No subshell draws a number: bash
# seeds it anew there.
RANDOM=7
text=$corpus/jax_cudnn_f8_BTNH/model.generic.mlir
"$qfuse_mlir" --bytecode "$text" >"$folder/whole.mlirbc"
for kind in text bytecode; do
    source=$text
    [ "$kind" = text ] || source=$folder/whole.mlirbc
    size=$(wc -c <"$source")
    for _ in $(seq 40); do
        at=$(((RANDOM * 32768 + RANDOM) % size)) length=$((RANDOM % 24 + 1)) how=$((RANDOM % 3)) byte=$((RANDOM % 256))
        {
            head -c "$at" "$source"
            case $how in
                0) head -c "$length" /dev/zero | tr '\0' "\\$(printf %03o "$byte")"; tail -c "+$((at + length + 1))" "$source" ;;
                1) tail -c "+$((at + length + 1))" "$source" ;;
                2) tail -c "+$((at > length ? at - length : 1))" "$source" ;;
            esac
        } >"$folder/mutant"
        survives "$folder/mutant"
    done
done
[ "$refused" -gt 20 ] || { echo "only $refused files were refused: the mutations mean nothing"; faults=$((faults + 1)); }
echo "$runs files, $refused refused, $faults faults"
[ "$faults" -eq 0 ]
