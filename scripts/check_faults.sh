#!/usr/bin/env bash
# Owns: checking that each fault that other systems shipped has a test named after its number (fault_N_..., or fault_N_M_..., in tests/).
# Does not own: the tests.
# Next: tests/README.md. Usage: scripts/check_faults.sh
cd "$(dirname "$0")/.." || exit 2
missing=()
for number in $(seq 1 63) $(seq 65 78); do
    grep -rqE "fault_([0-9]+_)*${number}_([0-9]+_)*[a-z]" tests bench || missing+=("$number")
done
if [ ${#missing[@]} -gt 0 ]; then
    echo "no test is named after fault ${missing[*]}"
    exit 1
fi
echo "every fault has a test"
