#!/usr/bin/env bash
# Owns: judging a whole corpus folder, allowing exactly the failures that are written down.
# Does not own: judging (scripts/corpus.sh), the list (unfaithful_references.txt).
# Next: scripts/corpus.sh. Usage: tests/e2e/whole.sh FOLDER
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
output=$("$here/../../scripts/corpus.sh" "$1")
printf '%s\n' "$output"
found=$(printf '%s\n' "$output" | grep ' FAIL ' | awk '{print $1}' | sort)
listed=$(grep -v '^#' "$here/unfaithful_references.txt" | awk '{print $1}' | while read -r name; do [ -d "$1/$name" ] && echo "$name"; done | sort)
printf '%s\n' "$output" | tail -n 1 | grep -Eq '^[1-9][0-9]* passed' || { echo "nothing passed"; exit 1; }
[ "$found" = "$listed" ] || { echo "expected to fail: ${listed:-none}; failed: ${found:-none}"; exit 1; }
