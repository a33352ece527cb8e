#!/usr/bin/env bash
# Owns: build/gpu-bundle, a folder with everything that a GPU machine needs to test and time QFuse: no compiler, no source tree.
# Does not own: its commands (scripts/gpu/run.sh).
# Next: docs/gpu.md. Usage: scripts/gpu-bundle.sh [--without-harnesses]; this leaves out the attention kernels' own accuracy harnesses
# and benches, which take minutes to build.
. "$(dirname "$0")/lib.sh"
install_missing "${build_packages[@]}"
harnesses=yes
case ${1:-} in
    '') ;;
    --without-harnesses) harnesses=no ;;
    *) echo "usage: $0 [--without-harnesses]" >&2; exit 2 ;;
esac
folder=$root/build/gpu bundle=$root/build/gpu-bundle

# DT_RPATH, not DT_RUNPATH: the libraries' own dependencies are looked for beside them as well.
say "building"
mkdir -p "$folder"
cmake -S "$root" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DQF_CUDA=ON \
    -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON -DCMAKE_INSTALL_RPATH='$ORIGIN/../lib' -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags \
    -DCMAKE_SHARED_LINKER_FLAGS=-Wl,--disable-new-dtags -DCMAKE_SKIP_BUILD_RPATH=OFF >"$folder/configure.log" 2>&1 ||
    { cat "$folder/configure.log"; exit 1; }
grep 'GPU kernels' "$folder/configure.log"
grep -q 'GPU kernels: compiled' "$folder/configure.log" || { echo "nvcc was not found: scripts/deps.sh cuda fetches it"; exit 1; }
cmake --build "$folder" -j "$(nproc)" --target qfuse_program conformance emitted_example host_custom_call qfuse qfuse_rt >"$folder/build.log" 2>&1 ||
    { tail -n 60 "$folder/build.log"; exit 1; }
if [ "$harnesses" = yes ]; then
    for family in decode prefill; do
        say "building the harnesses of $family"
        kernels/cuda/build.sh -k "$family" -o "$folder/$family" -j "$(nproc)"
    done
fi

say "putting it together"
rm -rf "$bundle"
mkdir -p "$bundle"/{bin,lib,scripts,bench,model,python/qfuse,python/tests,tests/e2e}
cp "$folder/tools/qfuse" "$folder/tests/gpu/conformance/conformance" "$folder/tests/emitted/emitted_example" \
    "$folder/examples/host_custom_call" "$bundle/bin/"
cp python/qfuse/*.py "$bundle/python/qfuse/"
cp python/tests/test_cuda.py python/tests/torch_parts.py "$bundle/python/tests/"
for program in "$folder"/decode/*_accuracy "$folder"/decode/*_bench "$folder"/prefill/*_accuracy "$folder"/prefill/*_bench; do
    if [ -x "$program" ]; then cp "$program" "$bundle/bin/"; fi
done
cp -P "$folder"/libqfuse.so* "$folder"/libqfuse_rt.so* "$bundle/lib/"

# What they need beside libc and its parts.
ldd "$bundle"/bin/qfuse "$bundle"/bin/host_custom_call "$bundle"/bin/conformance "$bundle"/lib/libqfuse.so.0 |
    awk '$3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libgcc_s|libqfuse|libqfuse_rt|libcuda|ld-linux[^/]*)\.so' |
    while IFS= read -r library; do cp -L "$library" "$bundle/lib/"; done
find "$bundle/bin" "$bundle/lib" -type f -exec strip --strip-unneeded {} +
cp scripts/corpus.sh "$bundle/scripts/"
cp tests/e2e/unfaithful_references.txt "$bundle/tests/e2e/"
cp scripts/gpu/run.sh "$bundle/run.sh"
cp examples/llama_fp8_kv/* "$bundle/model/"
if [ -f bench/attention.py ]; then cp bench/attention.py "$bundle/bench/"; fi
chmod +x "$bundle/run.sh"
git rev-parse HEAD >"$bundle/commit.txt"

kilobytes=$(du -sk "$bundle" | cut -f 1)
say "$bundle: $((kilobytes / 1024)) MB"
[ "$kilobytes" -lt 40960 ] || { echo "the bundle must stay under 40 MB"; exit 1; }
