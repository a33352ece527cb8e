#!/usr/bin/env bash
# Owns: judging every case folder under a folder: one line a case, a sum at the end. A case whose reference is known to be another
# graph's must be unlike it, here and wherever the list goes along (the GPU bundle), and hold in everything else.
# Does not own: what a case is and how it is judged (`qfuse case`), the list of such references.
# Next: tools/case.c. Usage: scripts/corpus.sh FOLDER [--jobs=N] [qfuse case options]; with N jobs, lines come as cases end.
set -uo pipefail
export LC_ALL=C.UTF-8 # cases come in one order everywhere
root=$(cd "$(dirname "$0")/.." && pwd)
export qfuse=${QFUSE:-$root/build/release/tools/qfuse} list=$root/tests/e2e/unfaithful_references.txt
[ $# -ge 1 ] || { echo "usage: $0 FOLDER [--jobs=N] [options of qfuse case]" >&2; exit 2; }
[ -x "$qfuse" ] || { echo "$qfuse does not exist: build first (scripts/test.sh), or set QFUSE" >&2; exit 2; }
[ -d "$1" ] || { echo "$1 is no folder" >&2; exit 2; }
[ -f "$list" ] || { echo "$list does not exist" >&2; exit 2; }
folder=$1 jobs=1
shift
case ${1:-} in --jobs=*) jobs=${1#--jobs=}; shift ;; esac
[[ $jobs =~ ^[1-9][0-9]*$ ]] || { echo "--jobs: expected a whole number above 0, found '$jobs'" >&2; exit 2; }
sums=$(mktemp)
export sums
trap 'rm -f "$sums"' EXIT

# judge CASE [options of qfuse case]
judge() {
    local folder=$1 kind=faithful verdict=ok
    shift
    ! awk '{ print $1 }' "$list" | grep -qxF -- "$(basename "$folder")" || kind=unfaithful
    [ "$kind" = faithful ] || set -- "$@" --unlike-reference
    "$qfuse" case "$folder" --quiet "$@" || verdict=failed
    echo "$verdict $kind" >>"$sums"
}
export -f judge

find "$folder" -mindepth 1 -maxdepth 1 -type d -print0 | sort -z |
    xargs -0 -r -P "$jobs" -I '{}' bash -c 'judge "$@"' judge '{}' "$@"
passed=$(grep -c '^ok' "$sums") failed=$(grep -c '^failed' "$sums") unfaithful=$(grep -cx 'ok unfaithful' "$sums")
if [ "$unfaithful" -gt 0 ]; then
    echo "$passed ok, of these $unfaithful with an unfaithful reference; $failed failed"
else
    echo "$passed ok, $failed failed"
fi
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
