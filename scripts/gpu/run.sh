#!/usr/bin/env bash
# Owns: the commands of the GPU bundle; runs where it lies and needs no compiler and no source tree.
# Does not own: making the bundle (scripts/gpu-bundle.sh), what each program checks.
# Next: docs/gpu.md.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
own_path=${LD_LIBRARY_PATH-} # for programs that bring libraries of their own
export QFUSE=$here/bin/qfuse LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

[ -x "$QFUSE" ] || { echo "$QFUSE does not exist: run.sh belongs into a bundle (scripts/gpu-bundle.sh makes one)" >&2; exit 2; }

usage() {
    cat <<'TEXT'
usage: run.sh COMMAND [arguments]
  smoke                  one small plan on the GPU against the CPU, and what the machine has
  conformance [options]  every GPU kernel against the CPU (bin/conformance --help), then the attention kernels' accuracy
  sanitize [options]     compute-sanitizer memcheck and racecheck over the small cases
  bench [options]        attention, matrix products, copies: bin/qfuse bench; then the attention kernels' benches
  host [options]         a host's own tensors, streams and CUDA graphs: bin/host_custom_call, the Python package with PyTorch
  peers [options]        the same attention beside cuDNN and PyTorch (bench/attention.py), where Python has them
  corpus FOLDER          every model of a corpus on the GPU, unfused and fused, against its references and the CPU
  verify [FOLDER...]     all of the above that says right or wrong, and the corpora: a log each in $LOGS (default: logs), a line each at the end
compute-sanitizer is taken from $COMPUTE_SANITIZER, the PATH, /usr/local/cuda*/bin or /opt/nvidia.
TEXT
}

machine() {
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw,memory.total --format=csv,noheader 2>/dev/null || echo "no nvidia-smi"
}

find_sanitizer() {
    local found
    for found in "${COMPUTE_SANITIZER:-}" "$(command -v compute-sanitizer)" /usr/local/cuda/bin/compute-sanitizer \
        /usr/local/cuda-*/bin/compute-sanitizer /usr/local/cuda*/compute-sanitizer/compute-sanitizer /opt/nvidia/*/compute-sanitizer; do
        [ -n "$found" ] && [ -x "$found" ] && [ -f "$found" ] && { echo "$found"; return 0; }
    done
    return 1
}

smoke() {
    machine
    "$QFUSE" --version
    find_sanitizer || echo "no compute-sanitizer"
    "$here/bin/conformance" --only=plan/ "$@" || return
    "$here/bin/emitted_example" || return
    "$QFUSE" compare "$here/model/model.onnx" --expect="$here/model" --passes=serving --quiet >/dev/null &&
        "$QFUSE" case "$here/model" --device=cuda --quiet
}

conformance() {
    local program code=0
    machine
    "$here/bin/conformance" "$@" || code=$?
    # Only a whole run goes on to the kernels that have harnesses of their own.
    if [ $# -eq 0 ]; then
        for program in "$here"/bin/*_accuracy; do
            [ -x "$program" ] || continue
            echo "== $(basename "$program")"
            "$program" || code=1
        done
    fi
    return "$code"
}

sanitize() {
    local tool check code=0
    tool=$(find_sanitizer) || { echo "skipped: compute-sanitizer was not found; set COMPUTE_SANITIZER"; return 77; }
    for check in memcheck racecheck; do
        echo "== $check"
        "$tool" --tool "$check" --error-exitcode 9 --print-limit 5 "$here/bin/conformance" --no-fork --subset --sample=20 --seconds=300 "$@" || code=1
    done
    return "$code"
}

bench() {
    machine
    "$QFUSE" bench --device=cuda "$@" || return
    [ $# -eq 0 ] || return 0
    local program code=0
    for program in "$here"/bin/*_bench; do
        [ -x "$program" ] || continue
        echo "== $(basename "$program")"
        "$program" || code=1
    done
    return "$code"
}

# Not bit-equal to the CPU, which sums in another order: some codes flip.
custom_calls() {
    echo "== host_custom_call"
    "$here/bin/host_custom_call" "$here/model/model.onnx" cuda | awk '
        { print }
        / codes differ$/ { calls++; if ($3 > 0.05 * $5) bad++ }
        END { if (!calls || bad) { print "FAILED: more than 5 % of the codes differ, or there is no call"; exit 1 } }'
}

host() {
    local code=0 python log said
    machine
    said=$("$here/bin/host_custom_call" "$here/model/model.onnx" cuda 2>&1 >/dev/null)
    case $said in *"needs NVIDIA's driver"* | *"it has no GPU"*) echo "skipped: $said"; return 77 ;; esac
    custom_calls || code=1
    python=$(command -v python3) || { echo "skipped: no python3"; return 77; }
    echo "== Python"
    log=$(mktemp)
    (cd "$here/python" && LD_LIBRARY_PATH=$own_path QFUSE_LIBRARY=$here/lib/libqfuse.so.0 PYTHONDONTWRITEBYTECODE=1 \
        "$python" -m unittest -v "${@:-tests.test_cuda}") \
        2>&1 | tee "$log" || code=1
    if grep -q "torch sees no GPU" "$log"; then
        echo "skipped: Python has no PyTorch, or it sees no GPU"
        [ "$code" -ne 0 ] || code=77
    fi
    rm -f "$log"
    return "$code"
}

peers() {
    local python
    python=$(command -v python3) || { echo "skipped: no python3"; return 77; }
    "$python" "$here/bench/attention.py" --library="$here/lib/libqfuse.so.0" "$@"
}

corpus() {
    [ $# -ge 1 ] || { usage >&2; return 2; }
    "$here/scripts/corpus.sh" "$@" --device=cuda
}

# logged NAME COMMAND...: runs it, and notes how it ended.
logged() {
    local name=$1 code=0 start=$SECONDS
    shift
    "$@" >"$logs/$name.log" 2>&1 || code=$?
    printf '%-20s exit code %3d, %3d s: %s\n' "$name" "$code" $((SECONDS - start)) "$(tail -n 1 "$logs/$name.log")" >>"$logs/verdicts"
}

# Side by side, since nothing here is timed; what looks at the device's free memory (smoke, conformance) runs alone after it.
verify() {
    local folder program jobs
    logs=${LOGS:-logs} jobs=$(($(nproc) > 1 ? $(nproc) / 2 : 1))
    mkdir -p "$logs" && : >"$logs/verdicts" || return 2
    machine
    for folder in "$@"; do logged "corpus_$(basename "$folder")" corpus "$folder" --jobs="$jobs" & done
    for program in "$here"/bin/*_accuracy; do
        if [ -x "$program" ]; then logged "$(basename "$program")" "$program" & fi
    done
    logged sanitize sanitize &
    wait
    logged smoke smoke
    logged conformance conformance --jobs="$(nproc)"
    logged host host
    machine
    cat "$logs/verdicts"
    if grep -qvE 'exit code +(0|77),' "$logs/verdicts"; then return 1; fi
    if grep -q 'exit code  77,' "$logs/verdicts"; then return 77; fi
}

case ${1:-} in
    smoke | conformance | sanitize | bench | host | peers | corpus | verify) command=$1; shift; "$command" "$@" ;;
    *) usage >&2; exit 2 ;;
esac
