#!/usr/bin/env bash
# Owns: testing the Python package, with torch where it is asked for.
# Does not own: the tests (python/tests), the build.
# Next: python/tests/test_torch.py. Usage: scripts/python.sh [--torch]; --torch makes .deps/python, a virtual environment with
#       the torch of the package index (several GB with its CUDA libraries), which later runs and CTest use as well.
. "$(dirname "$0")/lib.sh"
install_missing "${build_packages[@]}" python3-venv
python=python3
if [ "${1-}" = --torch ] && [ ! -x .deps/python/bin/python ]; then
    say "installing torch into .deps/python"
    python3 -m venv .deps/python
    .deps/python/bin/pip install --quiet torch numpy || { rm -rf .deps/python; exit 1; }
fi
[ -x .deps/python/bin/python ] && python=$root/.deps/python/bin/python
scripts/deps.sh
say "building (release)"
build release qfuse
say "testing the Python package with $("$python" --version)"
cd python
PYTHONDONTWRITEBYTECODE=1 QFUSE_LIBRARY=$root/build/release/libqfuse.so "$python" -m unittest discover -s tests -v
