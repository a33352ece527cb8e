#!/usr/bin/env bash
# Owns: the main job on a real exported model: an attention before and after, explained, run both ways on the CPU.
# Does not own: the work itself (`qfuse compare`).
# Next: examples/llama_fp8_kv/README.md. Usage: scripts/demo.sh
. "$(dirname "$0")/lib.sh"
install_missing "${build_packages[@]}"
scripts/deps.sh
say "building"
build release qfuse_program
model=examples/llama_fp8_kv
say "a two-layer Llama with an FP8 KV cache, exported by ModelOpt: $model/model.onnx"
build/release/tools/qfuse compare "$model/model.onnx" --expect="$model" --passes=serving
