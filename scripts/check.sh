#!/usr/bin/env bash
# Owns: checks on sources that need no build: format, head comments, file sizes, names of this machine.
# Does not own: include directions and exported symbols (CMake and tests/install).
# Next: .ci/run. Usage: scripts/check.sh
. "$(dirname "$0")/lib.sh"
install_missing clang-format
fail=0
fault() { echo "check: $*"; fail=1; }
files=$(tracked '*.c' '*.h' '*.cu' '*.cuh')
mapfile -t sources <<<"$files"
clang-format --dry-run --Werror "${sources[@]}" || fault "run clang-format -i on the files above"
for file in "${sources[@]}"; do
    head -n 4 "$file" | tr '\n' ' ' | grep -q 'Owns:' || fault "$file does not begin with what it owns"
    lines=$(wc -l <"$file")
    cap=500
    case $file in kernels/* | spec/*) cap=900 ;; esac
    [ "$lines" -le "$cap" ] || grep -q "^$file " docs/decisions/large-files.txt 2>/dev/null ||
        fault "$file has $lines lines, more than $cap, and no reason in docs/decisions/large-files.txt"
done
[ "$fail" -eq 0 ] && say "sources are well kept (${#sources[@]} files)"
exit "$fail"
