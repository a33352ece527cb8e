#!/bin/sh
# Owns: a stand-alone build of one family of attention kernels, its bench and its accuracy harness for sm_90a.
# Does not own: the library's build, which compiles the same sources. Read next: decode/launch.cuh, prefill/launch.cuh.
#
# build.sh [-k FAMILY] [-o FOLDER] [-j JOBS] [-f] [VARIANT-GLOB]
#   FAMILY is decode (the default) or prefill. FOLDER defaults to build/FAMILY at the repository root. -f keeps going
#   when a hot kernel spills registers. VARIANT-GLOB limits what is recompiled (for example '*e4m3_d128*'); the other
#   objects must exist.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
family=decode out= jobs=2 strict=1
while getopts k:o:j:f option; do
    case $option in
    k) family=$OPTARG ;;
    o) out=$OPTARG ;;
    j) jobs=$OPTARG ;;
    f) strict=0 ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
glob=${1:-*}
out=${out:-$root/build/$family}
mkdir -p "$out/obj"
nvcc=${NVCC:-nvcc}
flags="-O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a -I$here -I$root ${QF_NVCC_FLAGS:-}"

compile_kernel='set -e
object=$1/obj/$(basename "$2" .cu).o
$NVCC $FLAGS -Xptxas -v -c "$2" -o "$object.new" >"$object.log" 2>&1 || { cat "$object.log"; exit 255; }
mv "$object.new" "$object"'
export NVCC="$nvcc" FLAGS="$flags"
newest=$(ls -t "$here"/common/*.cuh "$here"/"$family"/*.h "$here"/"$family"/*.cuh | grep -v -e launch.cuh -e select.h -e check.cuh | head -n 1)
for source in "$here"/"$family"/$glob.cu; do
    object=$out/obj/$(basename "$source" .cu).o
    if [ ! -e "$object" ] || [ "$newest" -nt "$object" ] || [ "$source" -nt "$object" ]; then echo "$source"; fi
done | xargs -r -P "$jobs" -I SOURCE nice sh -c "$compile_kernel" compile "$out" SOURCE

spills=$(awk '/bytes spill stores/ && $5 > 0 { print FILENAME ": " $5 " bytes" }' "$out"/obj/*.log)
if [ -n "$spills" ]; then
    echo "register spills in: $spills"
    [ "$strict" = 0 ] || exit 1
fi
if grep -l 'Potential Performance Loss' "$out"/obj/*.log; then exit 1; fi

for program in bench/$family/${family}_bench tests/gpu/$family/${family}_accuracy; do
    [ -e "$root/$program.cu" ] || continue
    sources=$root/$program.cu
    jitter=$root/tests/gpu/$family/jitter.cu
    if [ -e "$jitter" ] && [ "${program##*_}" = accuracy ]; then sources="$sources $jitter"; fi
    nice $nvcc $flags -cudart static -Xcompiler -pthread $sources "$out"/obj/*.o \
        -Xcompiler -static-libstdc++,-static-libgcc -o "$out/$(basename "$program")"
done
