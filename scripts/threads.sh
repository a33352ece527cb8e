#!/usr/bin/env bash
# Owns: ThreadSanitizer over what the headers promise about threads: contexts side by side, plans that threads share, the GPU's
# host side on a driver that copies.
# Does not own: the tests (tests/runtime/threads_test.c, cuda_test.c, tests/frontends/onnx_threads_test.c).
# Next: docs/abi.md, "Threads". Builds only what these tests need: half a minute.
. "$(dirname "$0")/lib.sh"
install_missing "${build_packages[@]}"
say "building (tsan)"
build tsan test_runtime_threads test_runtime_cuda test_frontends_onnx_threads
say "testing (tsan)"
ctest --test-dir build/tsan --output-on-failure --timeout 120 -R '^(runtime/threads|runtime/cuda|frontends/onnx_threads)$'
