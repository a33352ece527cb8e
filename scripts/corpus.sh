#!/usr/bin/env bash
# Owns: judging every case folder under a folder: one line a case, a sum at the end.
# Does not own: what a case is and how it is judged (`qfuse case`).
# Next: tools/case.c. Usage: scripts/corpus.sh FOLDER [qfuse case options]
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
qfuse=${QFUSE:-$root/build/release/tools/qfuse}
[ $# -ge 1 ] || { echo "usage: $0 FOLDER [options of qfuse case]" >&2; exit 2; }
[ -x "$qfuse" ] || { echo "$qfuse does not exist: build first (scripts/test.sh), or set QFUSE" >&2; exit 2; }
[ -d "$1" ] || { echo "$1 is no folder" >&2; exit 2; }
folder=$1
shift
passed=0
failed=0
while IFS= read -r case_folder; do
    if "$qfuse" case "$case_folder" --quiet "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done < <(find "$folder" -mindepth 1 -maxdepth 1 -type d | sort)
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
