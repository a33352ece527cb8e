#!/usr/bin/env bash
# Owns: accepting what golden files and generated documents give now as what they should be.
# Does not own: the runner (tests/golden/runner.c).
# Next: tests/golden/README.md. Usage: scripts/bless.sh [FILE.golden...]; read `git diff` afterwards.
. "$(dirname "$0")/lib.sh"
files=()
for file in "$@"; do files+=("$(realpath "$file")"); done
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(find "$root/tests/golden" -name '*.golden' | sort)
build release golden_runner qfuse_program generate_docs
program=$(find "$root/build/release" -maxdepth 3 -type f -name qfuse -perm -u+x | head -n 1)
others=()
for file in "${files[@]}"; do
    case $file in
        */golden/mlir/*) "$root/build/release/tests/golden/golden_runner" --bless "$(dirname "$program")/qfuse-mlir" "$file" ;;
        *) others+=("$file") ;;
    esac
done
[ ${#others[@]} -eq 0 ] || "$root/build/release/tests/golden/golden_runner" --bless "$program" "${others[@]}"
git diff --stat -- tests/golden docs/ops.md
