#!/usr/bin/env bash
# Run inside scripts/env.sh: bench/run.lua and bench/native.lua with the references that they want, at the machine's own settings.
set -euo pipefail
cd "$(dirname "$0")/.."
# settings that make NumPy slower or faster than a plain installation is
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
case ${MOONTENSOR_PYTHON:-} in
"$PWD"/.venv/*)
    "$MOONTENSOR_PYTHON" scripts/requirements.py requirements-bench.txt >/dev/null ||
        "$MOONTENSOR_PYTHON" -m pip install -q --disable-pip-version-check -r requirements-bench.txt ||
        echo "bench: lupa is not to be had; its rows stay empty" >&2
    ;;
esac
build=$PWD/${BUILD:-build}/bench
mkdir -p "$build"
make --no-print-directory -s "${BUILD:-build}/bench/floor.so" || rm -f "$build/floor.so"
export LUA_CPATH_5_4="$build/?.so;$LUA_CPATH_5_4"
"${LUA:-lua5.4}" bench/run.lua "$@"
# it has written RESULTS.md anew; the other appends its section
if [ $# -eq 0 ]; then "${LUA:-lua5.4}" bench/native.lua; fi
