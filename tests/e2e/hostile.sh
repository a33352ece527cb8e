#!/usr/bin/env bash
# Owns: what the qfuse program does with bad files, bad arguments and places that cannot be read or written: one located error,
#       the documented exit code, in time, and no half-written file.
# Does not own: bytes inside the formats (tests/frontends, tests/fuzz), texts of messages (tests/golden).
# Next: tools/load.c, tools/options.c. Usage: tests/e2e/hostile.sh QFUSE
set -uo pipefail
qfuse=$(realpath "$1")
program=$(realpath "$(dirname "$0")/../corpus/pt2/torchao_wo_llama/model.pt2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 2
runs=0
faults=0

# refused CODE PATTERN ARGUMENTS...: exit code CODE, exactly one error, which matches PATTERN.
refused() {
    local code=$1 pattern=$2 found=0
    shift 2
    timeout 20 "$qfuse" "$@" <"${input:-/dev/null}" >out 2>err || found=$?
    runs=$((runs + 1))
    if [ "$found" -ne "$code" ] || [ "$(grep -c 'error:' err)" -ne 1 ] || ! grep -q -- "$pattern" err; then
        echo "qfuse $*: expected exit code $code and one error like '$pattern', found $found and:"
        head -n 8 err
        faults=$((faults + 1))
    fi
}

# accepted ARGUMENTS...: exit code 0.
accepted() {
    local found=0
    timeout 20 "$qfuse" "$@" <"${input:-/dev/null}" >out 2>err || found=$?
    runs=$((runs + 1))
    [ "$found" -eq 0 ] && return
    echo "qfuse $*: expected success, found exit code $found and:"
    head -n 8 err
    faults=$((faults + 1))
}

# npy HEADER BYTES: a version-1 file with that header and that many zero bytes, as bad.npy.
npy() {
    { printf '\223NUMPY\001\000'; printf "\\$(printf %03o $((${#1} & 255)))\\$(printf %03o $((${#1} >> 8)))"; printf '%s' "$1"
      head -c "$2" /dev/zero; } >bad.npy
}

printf 'graph @g(%%x: f32[T, 4], %%y: f32[T, 4]) {\n  %%z = add %%x, %%y\n  return %%z as "z"\n}\n' >g.qf
cp g.qf model.qf
mkfifo fifo fifo.qf fifo.npy fifo.pb fifo.qfplan fifo.rules
mkdir directory directory.qf directory.npy directory.qfplan case

# Files that are none.
for name in fifo.qf directory.qf fifo directory; do refused 1 "^$name: error: .*regular file" opt "$name"; done
for name in fifo.qfplan directory.qfplan; do refused 1 "^$name: error: .*regular file" run "$name"; done
for name in fifo.npy directory.npy; do refused 1 "^$name: error: .*regular file" run g.qf --input="$name"; done
for name in fifo.rules directory; do
    refused 1 "^$name: error: .*regular file" rules check "$name"
    refused 1 "^$name: error: .*regular file" opt g.qf --rules="$name"
    refused 1 "^$name: error: .*regular file" run g.qf --rules="$name"
done
refused 1 '^nothing: error: ' opt nothing
refused 1 "^'': error: " opt ''
input=directory refused 1 'error: cannot read' opt -

# Arguments.
for dims in T=x T=-1 T T= =3 , T=4,T=5 T=4x T=99999999999999999999; do refused 2 'expected sizes' run g.qf --dims="$dims"; done
refused 1 "no symbol 'Q'" run g.qf --dims=Q=4
refused 1 'would take more than' run g.qf --dims=T=1152921504606846
for threads in 0 -1 4294967297 1e3 ''; do refused 2 'number of threads' run g.qf --threads="$threads"; done
for tolerance in nan -1 1e999 inf x ''; do refused 2 'tolerance of 0 or more' run g.qf --tolerance="$tolerance"; done
refused 2 'whole number' run g.qf --seed=18446744073709551616
refused 2 'whole number' opt g.qf --rewrite-limit=-1
refused 2 'name of a pass' opt g.qf --print-after=nothing
refused 2 'newest or first' run g.qf --onnx-revision=x
for command in opt explain run compare; do
    refused 2 'there are default, exact, rounding' "$command" g.qf --numerics=x
    refused 2 'there are graph, unit, dynamic' "$command" g.qf --query-scale=x
    refused 2 'passes and pipelines are' "$command" g.qf --passes='('
    refused 2 'there are cpu' "$command" g.qf --target=x
done
refused 2 'there are cpu' opt g.qf --passes='legalize{target=x}'
refused 1 'no device is named' run g.qf --device=x
refused 2 'unknown option' run g.qf --unknown
refused 2 'needs a value' run g.qf --dims
refused 1 'given 3 times' run g.qf --input=g.npy --input=g.npy --input=g.npy

# Standard input, told apart by its first bytes.
accepted opt g.qf --emit=onnx -o g.onnx
accepted opt g.qf --emit=plan-binary -o g.qfplan
sed 's/T, 4/2, 4/g' g.qf >fixed.qf
accepted opt fixed.qf --emit=plan-binary -o fixed.qfplan
for name in g.qf g.onnx; do
    for command in opt explain run; do input=$name accepted "$command" -; done
    grep -q 'z: f32\[4, 4\]' out || { echo "run - <$name: another result"; faults=$((faults + 1)); }
done
input=fixed.qfplan accepted run -
input=g.qfplan refused 1 'symbolic size' run -
input=g.qfplan refused 1 '^<stdin>: error: expected a graph, found a launch plan' opt -
refused 1 '^g.qfplan: error: expected a graph, found a launch plan' explain g.qfplan
printf 'PK\3\4rest' >half.zip
input=half.zip refused 1 '^<stdin>: error: ' opt -
printf '\10\7\42' >half.onnx
input=half.onnx refused 1 '^<stdin>: byte 2: error: ' opt -
printf 'grape' >typed
input=typed refused 1 '^<stdin>:1:1: error: ' opt -
refused 1 '^<stdin>:1:1: error: ' opt -

# Integers that fit what reads them, and sizes that fit what was assumed.
cat >ids.qf <<'END'
graph @g(%table: f32[1, 8], %ids: i64[T], %lens: i32[B], %q: f32[B, 1, 2, 8], %k: f32[B, 1, 3, 8], %cache: f32[2, 1, 1, 8],
         %row: f32[T, 1, 8], %slots: i64[T], %u: f32[U]) symbols(T min 6) assume(U == 2*T) {
  %flat = view %ids {shape=[T, 1]}
  %rows = gather %table, %flat {axis=0}
  %o = attention %q, %k, %k, kv_lens=%lens {scale=0.5}
  %written = kv_cache_write %cache, %row, %slots
  %v = view %u {shape=[T, 2]}
  return %rows, %o, %written, %v
}
END
for seed in 0 1 2 3; do accepted run ids.qf --seed=$seed; done
grep -q 'f32\[6, 2\]' out || { echo "an assumed size was not taken:"; cat out; faults=$((faults + 1)); }
printf 'graph @g(%%x: f32[A], %%n: i64[]) {\n  %%i = iota {shape=[B]} : i64[B]\n  %%y = gather %%x, %%i\n  return %%y\n}\n' >beyond.qf
refused 1 'outside of axis' run beyond.qf --dims=A=2,B=3
grep -q '^note: .*--dims=A=2' err || { echo "the sizes of a failed run were not said"; faults=$((faults + 1)); }

# Warnings: once a kind, with a count; also in silence. No rewrite at all.
if "$qfuse" explain "$program" --quiet >out 2>err; then
    accepted explain "$program" --quiet
    grep -q 'warning: .*pickle.*(and 14 more places)$' err && [ "$(grep -c 'warning: .*pickle' err)" -eq 1 ] ||
        { echo "warnings of one kind were not counted:"; head -n 4 err; faults=$((faults + 1)); }
else
    grep -q 'no torch.export frontend' err || { echo "explain $program failed:"; head -n 4 err; faults=$((faults + 1)); }
fi
accepted opt g.qf --rewrite-limit=0
cat >fuse.qf <<'END'
graph @g(%x: f32[2, 4, 8], %s: f32[]) {
  %o = attention %x4, %x4, %x4 {scale=0.5}
  return %o
}
END
sed -i '2s/.*/  %x4 = view %x {shape=[1, 2, 4, 8]}\n  %o = attention %x4, %x4, %x4 {scale=0.5}\n  %y = quantize %o, %s {dtype=f8E4M3FN}/; s/return %o/return %y/' fuse.qf
for limit in 0 9; do
    accepted explain fuse.qf --rewrite-limit=$limit
    [ "$limit" -eq 0 ] && pattern='rewrite_limit' || pattern='fused by'
    grep -q "$pattern" out || { echo "--rewrite-limit=$limit: expected $pattern"; cat out; faults=$((faults + 1)); }
done

# .npy files: each as input of a graph of f32[2, 4].
good="{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }"
npy "$good" 32
accepted run g.qf --input=bad.npy --input=bad.npy
npy "{'shape':(2,4,),'fortran_order':False,'descr':'<f4'}" 32
accepted run g.qf --input=bad.npy --input=bad.npy
for header in "{'descr':" "'descr':'<f" "{'descr': '<f4x', ${good#*, }" "${good/2, 4/2 4}" "${good/2, 4/2,,4}" "${good/(2, 4)/(2,4)(3)}" \
    "${good/2, 4/-2, -4}" "${good/False/True}" "${good/2, 4/99999999999999999999, 4}" "${good/2, 4/4611686018427387904, 4}" "" "{}" \
    "${good/2, 4/1,1,1,1,1,1,1,2,4}" "$good}" "${good/<f4/|O}"; do
    npy "$header" 32
    refused 1 '^bad.npy: error: ' run g.qf --input=bad.npy
done
for size in 0 31 33; do npy "$good" $size; refused 1 '^bad.npy: error: ' run g.qf --input=bad.npy; done
for size in 0 5 9 11 12; do npy "$good" 32; head -c $size bad.npy >short.npy; refused 1 '^short.npy: error: ' run g.qf --input=short.npy; done

# expect.json.
mv model.qf case
for text in '' '[]' '3' '{' '{"tolerance":"x"}' '{"tolerance":0}' '{"attentions":-1}' '{"attentions":"3"}' '{"fp8_q":1.5}' \
    '{"compile_only":1}' '{"reference":[]}' '{"tolerance":1,"tolerance":2}' "$(printf '{"a":%.0s' $(seq 5000))"; do
    printf '%s' "$text" >case/expect.json
    refused 1 '^case/expect.json: error: ' case case
done
rm case/expect.json; mkfifo case/expect.json
refused 1 '^case/expect.json: error: .*regular file' case case
rm case/expect.json
refused 1 '^nothing: error: ' case nothing

# Output.
for place in /nonexistent/x directory /proc/x ''; do refused 1 'error: cannot write' opt g.qf -o "$place"; done
echo old >kept
refused 2 'unknown pass' opt g.qf --passes=x -o kept
[ "$(cat kept)" = old ] || { echo "a file was written although the command failed"; faults=$((faults + 1)); }
accepted opt g.qf -o kept
ln -s kept link
accepted opt g.qf -o link
[ -L link ] || { echo "a link was replaced"; faults=$((faults + 1)); }
timeout 20 cat fifo >got &
accepted opt g.qf -o fifo
wait $!
[ -p fifo ] && cmp -s got kept || { echo "a pipe was replaced or not written"; faults=$((faults + 1)); }
if [ -w /dev/full ]; then
    printf 'graph @long(%%x: f32[T]) {\n  return %s%%x\n}\n' "$(printf '%%x, %.0s' $(seq 30000))" >long.qf # more than stdio keeps
    for command in 'opt g.qf' 'opt long.qf' 'run g.qf' 'rules list' 'ops' '--help' '--version' 'opt --help' 'explain g.qf --json'; do
        runs=$((runs + 1))
        # shellcheck disable=SC2086
        if "$qfuse" $command >/dev/full 2>err || ! grep -q 'could not be written' err; then
            echo "qfuse $command: a full device was not noticed"
            faults=$((faults + 1))
        fi
    done
fi
# A closed stream's number is not given to a file, into which would go what is printed.
runs=$((runs + 2))
if "$qfuse" opt g.qf >&- 2>err || ! grep -q 'could not be written' err; then
    echo "a closed standard output was not noticed"
    faults=$((faults + 1))
fi
"$qfuse" opt g.qf -o kept >&- 2>&- <&- && accepted opt kept || { echo "streams that are closed: another file"; faults=$((faults + 1)); }
compgen -G '*.tmp' >/dev/null && { echo "a temporary file stays"; faults=$((faults + 1)); }

echo "$runs runs, $faults faults"
[ "$faults" -eq 0 ]
