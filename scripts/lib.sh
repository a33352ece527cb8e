# Owns: what the scripts share: where the repository is, saying what is done, installing what is missing.
# Does not own: what each script does.
# Next: test.sh. Sourced, not run.
set -euo pipefail
export LC_ALL=C.UTF-8 # orders and messages are the same everywhere
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

say() { printf '== %s\n' "$*"; }

# tracked PATTERN...: the files that git tracks, a line each, whoever owns the folder; a failure where there are none.
tracked() {
    git -c safe.directory="$root" ls-files -- "$@" | grep . || { echo "no file of $* is tracked by git in $root" >&2; return 1; }
}

# as_root COMMAND...: with sudo where it is needed.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else echo "needs root, or sudo: $*" >&2; return 1; fi
}

# install_missing PACKAGE...: installs the Debian packages that are not there, and says which.
install_missing() {
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    say "installing ${missing[*]}"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

build_packages=(gcc g++ libc6-dev cmake ninja-build pkg-config protobuf-c-compiler libprotobuf-c-dev libjansson-dev libzip-dev libcmocka-dev
    libonnx-dev unzip ca-certificates python3-pip
    libedit2 libffi8 libxml2 libz3-4 libzstd1) # the last ones: what libLLVM loads

# build PRESET [targets...]: configures once, builds what changed.
build() {
    local preset=$1
    shift
    mkdir -p "$root/build"; cmake --preset "$preset" >"$root/build/$preset.log" 2>&1 || { cat "$root/build/$preset.log"; return 1; }
    cmake --build --preset "$preset" -j "$(nproc)" ${1+--target "$@"} >>"$root/build/$preset.log" 2>&1 ||
        { tail -n 60 "$root/build/$preset.log"; return 1; }
}
