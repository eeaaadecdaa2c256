#!/bin/sh
# Which Python? One place decides, for the Makefile and every script.
#
#   scripts/python.sh run       the interpreter that specs, demo and bench use: PYTHON, else VIRTUAL_ENV if it has
#                               torch, else .venv
#   scripts/python.sh base      the interpreter that a new .venv is made from: python3 on PATH if it has a shared
#                               libpython, else Debian's own
#   scripts/python.sh includes  -I flags for bridge.so, from the first interpreter that has Python.h and NumPy's headers
#
# Prints nothing and exits 1 where there is none.

cd "$(dirname "$0")/.." || exit 1

real() { # a usable CPython >= 3.11 at $1: its own path, behind shims
    "$1" -c 'import sys; print(sys.executable) if sys.version_info >= (3, 11) else sys.exit(1)' 2>/dev/null
}

shared() { # does $1 have its libpython beside it?
    "$1" - 2>/dev/null <<'PY'
import os, sys, sysconfig
get = sysconfig.get_config_var
name = get("INSTSONAME") or get("LDLIBRARY") or ""
dirs = [get("LIBDIR") or "", os.path.join(get("LIBDIR") or "", get("MULTIARCH") or ""), get("LIBPL") or ""]
sys.exit(not (get("Py_ENABLE_SHARED") and any(os.path.exists(os.path.join(d, name)) for d in dirs)))
PY
}

has_torch() {
    "$1" -c 'import importlib.util as u, sys; sys.exit(not (u.find_spec("torch") and u.find_spec("numpy")))' 2>/dev/null
}

includes() { # NumPy >= 2, since a module built with older headers does not load beside NumPy 2
    "$1" - 2>/dev/null <<'PY'
import importlib.util, os, sys, sysconfig
spec = importlib.util.find_spec("numpy")
dirs = [sysconfig.get_path("include"), sysconfig.get_config_var("INCLUDEPY") or ""]
py = next((d for d in dirs if os.path.exists(os.path.join(d, "Python.h"))), None)
npy = spec and os.path.join(spec.submodule_search_locations[0], "_core", "include")
if sys.version_info < (3, 11) or not py or not npy or not os.path.isdir(npy):
    sys.exit(1)
print("-I" + py, "-I" + npy)
PY
}

run() {
    if [ -n "$PYTHON" ]; then real "$PYTHON"; return; fi
    if [ -n "$VIRTUAL_ENV" ] && has_torch "$VIRTUAL_ENV/bin/python"; then real "$VIRTUAL_ENV/bin/python"; return; fi
    if [ -x .venv/bin/python ]; then echo "$PWD/.venv/bin/python"; return; fi
    return 1
}

case "$1" in
run)
    run
    ;;
base)
    for python in python3 /usr/bin/python3 python3.14 python3.13 python3.12 python3.11; do
        path=$(real "$python") && shared "$path" && echo "$path" && exit 0
    done
    exit 1
    ;;
includes)
    if [ -n "$PYTHON" ]; then includes "$PYTHON"; exit; fi
    for python in "${VIRTUAL_ENV:-/nonexistent}/bin/python" .venv/bin/python python3 /usr/bin/python3; do
        command -v "$python" >/dev/null 2>&1 && includes "$python" && exit 0
    done
    exit 1
    ;;
*)
    echo "usage: scripts/python.sh run | base | includes" >&2
    exit 2
    ;;
esac
