#!/usr/bin/env bash
# Owns: fetching into .deps/ what Debian does not have, or cannot install side by side: the newest onnx.proto; MLIR of two releases;
#       on request NVIDIA's compiler.
# Does not own: Debian packages that are installed (lib.sh).
# Next: frontends/CMakeLists.txt. Usage: scripts/deps.sh [onnx_proto] [mlir] [cuda]; the first two by default.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

# put FROM TO: under its name when it is whole, so that an interrupted run leaves nothing that looks complete.
put() {
    mkdir -p "$(dirname "$2")"
    rm -rf "$2" "$2.new"
    mv "$1" "$2.new" # from another file system: copied here first
    mv "$2.new" "$2"
}

# The wheel of the onnx package is a zip file; only onnx.proto is taken out of it, and nothing of it is installed or run.
onnx_proto() {
    local folder="$root/.deps/onnx" scratch=$temporary/onnx
    [ -s "$folder/onnx.proto" ] && return 0
    if ! python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$scratch" onnx; then
        echo "deps.sh: the package index cannot be reached; Debian's onnx.proto serves instead" >&2
        return 0
    fi
    unzip -q -j -o "$scratch"/onnx-*.whl onnx/onnx.proto -d "$scratch"
    put "$scratch/onnx.proto" "$folder/onnx.proto"
}

# nvcc and what it needs (NVIDIA's licence applies), about 130 MB to fetch. CMake finds it when no other nvcc is there.
cuda() {
    local folder="$root/.deps/cuda" scratch=$temporary/cuda
    [ -x "$folder/nvidia/cu13/bin/nvcc" ] && return 0
    python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$scratch" "nvidia-cuda-nvcc==13.*" "nvidia-nvvm==13.*" \
        "nvidia-cuda-crt==13.*" "nvidia-cuda-runtime==13.*" "nvidia-cuda-cccl==13.*"
    for wheel in "$scratch"/*.whl; do unzip -q -o "$wheel" 'nvidia/*' -d "$scratch/tree"; done
    chmod +x "$scratch"/tree/nvidia/cu13/bin/* "$scratch"/tree/nvidia/cu13/nvvm/bin/*
    put "$scratch/tree" "$folder"
    "$folder/nvidia/cu13/bin/nvcc" --version | tail -n 2
}

# LLVM 22 and 19. Their -dev packages exclude each other, so they are unpacked, not installed; of 800 MB only what a build with the C
# API needs. A release that is installed serves as it is, one that the archive does not have is left out.
mlir() {
    unpack_mlir 22 &
    unpack_mlir 19 &
    wait
}

unpack_mlir() {
    local version=$1 folder="$root/.deps/mlir/$1" scratch=$temporary/mlir-$1 package
    [ -s "$folder/complete" ] && return
    [ -s "/usr/lib/llvm-$version/lib/libMLIRCAPIIR.a" ] && return
    mkdir "$scratch"
    if (cd "$scratch" && download "libmlir-$version" "libmlir-$version-dev" "libllvm$version"); then
        rm -rf "$folder"
        mkdir -p "$folder"
        for package in "$scratch"/*.deb; do
            dpkg-deb --fsys-tarfile "$package" | tar -x -C "$folder" --wildcards --no-anchored 'include/mlir-c' '*.capi.h.inc' 'libMLIRCAPI*.a' \
                'libMLIR.so*' 'libLLVM*.so*' 2>/dev/null || true # not every package has all of them
        done
        echo "LLVM $version" >"$folder/complete"
    else
        echo "deps.sh: the archive has no libmlir-$version-dev; MLIR of LLVM $version is not tested" >&2
    fi
}

# download PACKAGE...: into the folder where we are; the lists of packages are fetched where there are none.
download() {
    apt-get download -qq "$@" >/dev/null 2>&1 && return
    if [ "$(id -u)" -eq 0 ]; then apt-get update -qq; else sudo -n apt-get update -qq; fi >/dev/null 2>&1 || true
    apt-get download -qq "$@" >/dev/null 2>&1
}

[ $# -gt 0 ] || set -- onnx_proto mlir
for part in "$@"; do
    case "$part" in
        onnx_proto | mlir | cuda) "$part" ;;
        *) echo "deps.sh: unknown part '$part'; known: onnx_proto, mlir, cuda" >&2; exit 2 ;;
    esac
done
