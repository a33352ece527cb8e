#!/usr/bin/env bash
# Owns: fetching what Debian does not have, into .deps/: the newest onnx.proto.
# Does not own: Debian packages (lib.sh).
# Next: frontends/CMakeLists.txt. Usage: scripts/deps.sh [parts...]; all parts by default.
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

[ $# -gt 0 ] || set -- onnx_proto
for part in "$@"; do
    case "$part" in
        onnx_proto) onnx_proto ;;
        *) echo "deps.sh: unknown part '$part'; known: onnx_proto" >&2; exit 2 ;;
    esac
done
