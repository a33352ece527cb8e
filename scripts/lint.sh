#!/usr/bin/env bash
# Owns: static analysis: the clang build with warnings as errors, clang-tidy, cppcheck.
# Does not own: what counts as a fault (.clang-tidy, scripts/cppcheck.txt).
# Next: .ci/run. Usage: scripts/lint.sh [--quick]; --quick leaves out clang-tidy, which takes minutes.
. "$(dirname "$0")/lib.sh"
install_missing "${build_packages[@]}" clang clang-tidy cppcheck
scripts/deps.sh
say "building with clang, warnings as errors"
build clang
folders='base|spec|ir|patterns|passes|plan|codegen|kernels|runtime|frontends|tools|examples|bench'
[ "${1-}" = --quick ] || say "clang-tidy"
[ "${1-}" = --quick ] || run-clang-tidy -quiet -p build/clang "^$root/($folders)/.*\.c$" >build/clang-tidy.log 2>&1 ||
    { grep -E 'error:|warning:' build/clang-tidy.log | sort -u | head -n 60; exit 1; }
say "cppcheck"
cppcheck -q -j "$(nproc)" --std=c11 --enable=warning,performance,portability --inline-suppr --suppressions-list=scripts/cppcheck.txt \
    --error-exitcode=1 -Iinclude -I. base spec ir patterns passes plan codegen kernels/cpu kernels/*.c runtime frontends tools examples bench
say "no findings"
