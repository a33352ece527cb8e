#!/usr/bin/env bash
# Owns: rewritten modules still compute what they did: each case of the corpus, fused, judged against its references again; as
#       bytecode too.
# Does not own: how a case is judged (tools/case.c).
# Next: frontends/mlir/export.c. Usage: round_trip.sh QFUSE_MLIR QFUSE CORPUS
set -uo pipefail
qfuse_mlir=$1 qfuse=$2 corpus=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export QFUSE_MLIR=$qfuse_mlir
cases=0 faults=0
for case in "$corpus"/*/; do
    name=$(basename "$case")
    mkdir "$folder/$name"
    cp "$case"/* "$folder/$name/"
    chmod u+w "$folder/$name"/* # the corpus may be read-only
    "$qfuse_mlir" --fuse "$case/model.generic.mlir" >"$folder/$name/model.generic.mlir" || faults=$((faults + 1))
    wanted=$(grep -o '"fused_default": [0-9]*' "$case/expect.json" | grep -o '[0-9]*$')
    found=$(grep -c '"qfuse.attention"' "$folder/$name/model.generic.mlir")
    [ "$wanted" -eq "$found" ] || { echo "$name: expected $wanted qfuse.attention, found $found"; faults=$((faults + 1)); }
    "$qfuse" case "$folder/$name" --quiet || faults=$((faults + 1))
    # The same module as bytecode gives the same graph, but for places.
    "$qfuse_mlir" --bytecode "$case/model.generic.mlir" >"$folder/module.mlirbc" || faults=$((faults + 1))
    cmp -s <("$qfuse_mlir" "$case/model.generic.mlir") <("$qfuse_mlir" "$folder/module.mlirbc") ||
        { echo "$name: another graph from bytecode"; faults=$((faults + 1)); }
    cases=$((cases + 1))
done
[ "$cases" -gt 0 ] || { echo "no cases"; exit 1; }
echo "$cases cases, $faults faults"
[ "$faults" -eq 0 ]
