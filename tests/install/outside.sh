#!/usr/bin/env bash
# Owns: installing into an empty folder and using it from a project outside, by find_package and by pkg-config.
# Does not own: the project (outside/).
# Next: outside/CMakeLists.txt. Usage: outside.sh CMAKE BUILD PROJECT COMPILER FLAGS
set -euo pipefail
cmake=$1 build=$2 project=$3 compiler=$4 flags=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$cmake" --install "$build" --component qfuse --prefix "$work/prefix" >/dev/null
"$cmake" -S "$project" -B "$work/build" -G Ninja -DCMAKE_C_COMPILER="$compiler" -DCMAKE_C_FLAGS="$flags" \
    -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$cmake" --build "$work/build" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$work/build/compile_plan" "$work/plan.qfp"
"$work/build/run_plan" "$work/plan.qfp"
# The run-time half alone is enough to run a plan.
if ldd "$work/build/run_plan" | grep -q 'libqfuse\.so'; then echo "run_plan links the compiler half"; exit 1; fi
export PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig:$work/prefix/lib/$(uname -m)-linux-gnu/pkgconfig"
eval "words=($(pkg-config --cflags --libs qfuse))" # it quotes for a shell
# shellcheck disable=SC2086
"$compiler" $flags -std=c11 "$project/compile_plan.c" -o "$work/by_pkg_config" "${words[@]}"
library=$(find "$work/prefix" -name 'libqfuse.so')
LD_LIBRARY_PATH=$(dirname "$library") "$work/by_pkg_config" "$work/again.qfp"
cmp "$work/plan.qfp" "$work/again.qfp"
