#!/usr/bin/env bash
# Owns: checking that the run-time half holds no symbol of the compiler half, exported or hidden, and does not link it.
# Does not own: what is exported (symbols.sh).
# Next: outside.sh. Usage: halves.sh NM LIBQFUSE_RT COMPILER_ARCHIVE...
set -euo pipefail
nm=$1 library=$2
shift 2
compiler=$(for archive in "$@"; do "$nm" --defined-only -g "$archive"; done | awk 'NF == 3 {print $3}' | sort -u)
runtime=$("$nm" "$library" | awk '{print $NF}' | sed 's/@.*//' | sort -u)
[ "$(echo "$compiler" | grep -c '^qf_')" -gt 100 ] || { echo "the compiler half has too few symbols for this test to mean anything"; exit 1; }
echo "$runtime" | grep -q '^qf_executor_run$' || { echo "qf_executor_run is missing: is $library stripped?"; exit 1; }
shared=$(comm -12 <(echo "$compiler") <(echo "$runtime") | grep -v '^__' || true)
if [ -n "$shared" ]; then
    echo "in the run-time half, though the compiler half defines them:"
    echo "$shared"
    exit 1
fi
if readelf -d "$library" | grep -q 'NEEDED.*libqfuse\.so'; then echo "the run-time half links libqfuse"; exit 1; fi
echo "none of $(echo "$compiler" | wc -l) symbols of the compiler half is in the run-time half"
