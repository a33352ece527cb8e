#!/usr/bin/env bash
# Owns: installing what is missing, building, and running every test through CTest.
# Does not own: the tests (tests/), further checks of continuous integration (.ci/run).
# Next: scripts/lib.sh. Usage: scripts/test.sh [PRESET]; the last line is "N passed, N failed, N skipped".
. "$(dirname "$0")/lib.sh"
preset=${1:-release}
install_missing "${build_packages[@]}"
scripts/deps.sh
say "building ($preset)"
build "$preset"
say "testing ($preset)"
results=build/$preset/results.xml
status=0
ctest --test-dir "build/$preset" -j "$(nproc)" --timeout 900 --output-on-failure --output-junit "$root/$results" || status=$?
attribute() { sed -n "s/.*<testsuite.*[^a-z]$1=\"\([0-9]*\)\".*/\1/p; s/^[[:space:]]*$1=\"\([0-9]*\)\".*/\1/p" "$results" | head -n 1; }
total=$(attribute tests)
failed=$(attribute failures)
skipped=$(($(attribute skipped) + $(attribute disabled)))
echo "$((total - failed - skipped)) passed, $failed failed, $skipped skipped"
exit "$status"
