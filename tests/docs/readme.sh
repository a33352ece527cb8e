#!/usr/bin/env bash
# Owns: checking that what README.md shows is what the program does.
# Does not own: the golden files (tests/golden).
# Next: README.md. Usage: tests/docs/readme.sh QFUSE FOLDER_WITH_MODEL
set -euo pipefail
program=$(realpath "$1")
readme=$(realpath "$(dirname "$0")/../../README.md")
cd "$2"
block() { awk -v fence="\`\`\`$1" '$0 == fence {inside = 1; next} /^```/ {inside = 0} inside' "$readme"; }
[ -n "$(block before)" ] || { echo "README.md has no block \`\`\`before"; exit 1; }
diff <(block after) <(block before | "$program" opt --passes=serving) || { echo "README.md: the block after is not what comes out"; exit 1; }
count=0
while read -r name arguments; do
    [ "$name" = qfuse ] || { echo "README.md: not a command: $name"; exit 1; }
    read -ra words <<<"${arguments%%#*}"
    "$program" "${words[@]}" >/dev/null || { echo "README.md: qfuse ${words[*]} failed"; exit 1; }
    count=$((count + 1))
done < <(block commands)
[ "$count" -ge 6 ] || { echo "README.md: only $count commands found"; exit 1; }
for script in $(block sh | grep -o 'scripts/[a-z_]*\.sh'); do
    [ -x "$(dirname "$readme")/$script" ] || { echo "README.md: $script cannot be run"; exit 1; }
done
