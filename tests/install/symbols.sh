#!/usr/bin/env bash
# Owns: checking that the libraries together export exactly what the public headers declare with QF_API, each name once.
# Does not own: which header belongs to which library (cmake/QFuseLibraries.cmake).
# Next: halves.sh. Usage: symbols.sh NM HEADERS LIBRARY...
set -euo pipefail
nm=$1 headers=$2
shift 2
# Declarations may be broken over lines: join them, then take the name before the first parenthesis.
# libqfuse-mlir is given where it was built.
files=()
for header in "$headers"/*.h; do
    if [[ $header != */mlir.h || $* == *libqfuse-mlir* ]]; then files+=("$header"); fi
done
declared=$(cat "${files[@]}" | tr '\n' ' ' | grep -oE 'QF_API [^;(]*\(' | grep -oE 'qf(use)?_[a-z0-9_]+\($' | tr -d '(' | sort)
exported=$(for library in "$@"; do "$nm" -D --defined-only "$library"; done | awk '$2 != "A" {print $3}' | sed 's/@.*//' | sort)
if ! diff <(echo "$declared") <(echo "$exported"); then
    echo "'<': declared by a public header and not exported; '>': exported and not declared (or exported twice)"
    exit 1
fi
echo "$(echo "$exported" | wc -l) symbols, each declared once and exported once"
