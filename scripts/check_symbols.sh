#!/usr/bin/env bash
# What the built modules ask of the dynamic linker.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/report.sh
build=${BUILD:-build}
core=$build/moontensor/core.so bridge=$build/moontensor/bridge.so

dynamic() { readelf -dW "$1" | grep -E "$2"; }
without() { ! dynamic "$1" "$2"; }
exports() { # exports MODULE: nothing but luaopen_ and moon_ names leave it
    ! nm -D --defined-only "$1" | awk '{ print $3 }' | grep -vE '^(luaopen_moontensor_[a-z]+|moon_[a-z0-9_]+|_init|_fini)$'
}
# the way out of the process's life: a deleter may be called after lua_close has unloaded C modules
check "core.so is never unloaded" dynamic "$core" 'FLAGS_1.*NODELETE'
check "core.so needs no libpython and no liblua" without "$core" 'NEEDED.*lib(python|lua)'
check "core.so has no symbol of Python" bash -c "! nm -D --undefined-only '$core' | grep -E ' _?Py'"
check "core.so exports nothing foreign" exports "$core"
if [ -f "$bridge" ]; then
    check "bridge.so is never unloaded" dynamic "$bridge" 'FLAGS_1.*NODELETE'
    check "bridge.so needs no libpython, no liblua and no core.so" without "$bridge" 'NEEDED.*(lib(python|lua)|core)'
    check "bridge.so takes nothing from core.so but its table" bash -c "! nm -D --undefined-only '$bridge' | grep -E ' moon_'"
    check "bridge.so exports nothing foreign" exports "$bridge"
    python=$(scripts/python.sh run || scripts/python.sh base)
    check "bridge.so stays in the stable ABI of CPython 3.11" "$python" scripts/check_symbols.py "$bridge"
else
    skip bridge.so "it was not built: no Python.h or NumPy headers"
fi
report
