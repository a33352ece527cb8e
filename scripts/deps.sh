#!/usr/bin/env bash
# Owns: fetching what Debian does not have, into .deps/: the newest onnx.proto; on request NVIDIA's compiler.
# Does not own: Debian packages (lib.sh).
# Next: frontends/CMakeLists.txt. Usage: scripts/deps.sh [onnx_proto] [cuda]; onnx_proto by default.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The wheel of the onnx package is a zip file; only onnx.proto is taken out of it, and nothing of it is installed or run.
onnx_proto() {
    local folder="$root/.deps/onnx" scratch
    [ -s "$folder/onnx.proto" ] && return 0
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' RETURN
    if ! python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$scratch" onnx; then
        echo "deps.sh: the package index cannot be reached; Debian's onnx.proto serves instead" >&2
        return 0
    fi
    mkdir -p "$folder"
    unzip -q -j -o "$scratch"/onnx-*.whl onnx/onnx.proto -d "$folder"
}

# nvcc and what it needs (NVIDIA's licence applies), about 130 MB to fetch. CMake finds it when no other nvcc is there.
cuda() {
    local folder="$root/.deps/cuda" scratch
    [ -x "$folder/nvidia/cu13/bin/nvcc" ] && return 0
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' RETURN
    python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$scratch" "nvidia-cuda-nvcc==13.*" "nvidia-nvvm==13.*" \
        "nvidia-cuda-crt==13.*" "nvidia-cuda-runtime==13.*" "nvidia-cuda-cccl==13.*"
    mkdir -p "$folder"
    for wheel in "$scratch"/*.whl; do unzip -q -o "$wheel" 'nvidia/*' -d "$folder"; done
    chmod +x "$folder"/nvidia/cu13/bin/* "$folder"/nvidia/cu13/nvvm/bin/*
    "$folder/nvidia/cu13/bin/nvcc" --version | tail -n 2
}

[ $# -gt 0 ] || set -- onnx_proto
for part in "$@"; do
    case "$part" in
        onnx_proto | cuda) "$part" ;;
        *) echo "deps.sh: unknown part '$part'; known: onnx_proto, cuda" >&2; exit 2 ;;
    esac
done
