#!/usr/bin/env bash
# Owns: judging every case folder under a folder: one line a case, a sum at the end. A case whose reference is known to be another
# graph's must be unlike it, here and wherever the list goes along (the GPU bundle), and hold in everything else.
# Does not own: what a case is and how it is judged (`qfuse case`), the list of such references.
# Next: tools/case.c. Usage: scripts/corpus.sh FOLDER [qfuse case options]
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
qfuse=${QFUSE:-$root/build/release/tools/qfuse}
[ $# -ge 1 ] || { echo "usage: $0 FOLDER [options of qfuse case]" >&2; exit 2; }
[ -x "$qfuse" ] || { echo "$qfuse does not exist: build first (scripts/test.sh), or set QFUSE" >&2; exit 2; }
[ -d "$1" ] || { echo "$1 is no folder" >&2; exit 2; }
list=$root/tests/e2e/unfaithful_references.txt
[ -f "$list" ] || { echo "$list does not exist" >&2; exit 2; }
folder=$1
shift
passed=0
failed=0
unfaithful=0
while IFS= read -r case_folder; do
    options=(--quiet "$@")
    listed=0
    if awk '{ print $1 }' "$list" | grep -qxF -- "$(basename "$case_folder")"; then
        listed=1
        options+=(--unlike-reference)
    fi
    if "$qfuse" case "$case_folder" "${options[@]}"; then
        passed=$((passed + 1))
        unfaithful=$((unfaithful + listed))
    else
        failed=$((failed + 1))
    fi
done < <(find "$folder" -mindepth 1 -maxdepth 1 -type d | sort)
if [ "$unfaithful" -gt 0 ]; then
    echo "$passed ok, of these $unfaithful with an unfaithful reference; $failed failed"
else
    echo "$passed ok, $failed failed"
fi
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
