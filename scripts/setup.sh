#!/usr/bin/env bash
# Install what is missing, and nothing when nothing is: Debian packages, then a .venv with requirements.txt and
# requirements-test.txt.
# Without root and sudo: one line that says what to install, and nothing is touched.
#   scripts/setup.sh         for everything that this Makefile does
#   scripts/setup.sh run     for building and running: no busted, LuaRocks or linters
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

packages=()
need() { packages+=("$@"); }

lua_header=$(make -s -f Makefile --eval 'where: ; @echo $(LUA_INCDIR)' where 2>/dev/null || true)
have make && echo '#include <stdio.h>' | cc -E - >/dev/null 2>&1 || need build-essential
have lua5.4 || need lua5.4
[ -n "$lua_header" ] || need liblua5.4-dev
have python3 || need python3
if [ "${1:-all}" = all ]; then
    lua5.4 -e 'require "busted"' >/dev/null 2>&1 || need lua-busted
    have luarocks || need luarocks
    have luacheck || need lua-check
    have clang-format || need clang-format
    have cppcheck || need cppcheck
    have valgrind || need valgrind
    # the fuzz targets
    have clang && ls /usr/lib/llvm-*/lib/clang/*/lib/*/libclang_rt.fuzzer-*.a >/dev/null 2>&1 || need clang libclang-rt-dev
    # the installation checks start Debian's own interpreter too
    [ ! -x /usr/bin/python3.11 ] || ls /usr/lib/*/libpython3.11.so.1.0 >/dev/null 2>&1 || need libpython3.11
fi

# the interpreter: given and used as it is, or ours in .venv
given=
if [ -n "${PYTHON:-}" ]; then
    given=$(scripts/python.sh run) || die "PYTHON=$PYTHON is not a CPython 3.11 or later that runs"
elif [ -n "${VIRTUAL_ENV:-}" ] && [ "$VIRTUAL_ENV" != "$PWD/.venv" ]; then
    given=$(scripts/python.sh run || true)
    case $given in "$PWD/.venv/"* | '') given= && say "VIRTUAL_ENV=$VIRTUAL_ENV has no torch: using .venv instead" ;; esac
fi
base=$(scripts/python.sh base || true)
if [ -z "$given" ] && [ ! -x .venv/bin/python ]; then
    # Debian's own interpreter keeps its shared library, its headers and venv in packages apart
    [ -n "$base" ] || { need libpython3.11 python3-venv python3-dev; base=/usr/bin/python3; }
    if [ "$base" = /usr/bin/python3 ] && have python3; then
        "$base" -c 'import ensurepip' 2>/dev/null || need python3-venv
        [ -e "$("$base" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] || need python3-dev
    fi
elif [ -n "$given" ] || [ -x .venv/bin/python ]; then
    python=${given:-.venv/bin/python}
    [ -e "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] ||
        case $("$python" -c 'import sys; print(sys.base_prefix)') in /usr) need python3-dev ;; esac
fi

if [ ${#packages[@]} -gt 0 ]; then
    mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
    install="apt-get update && apt-get install -y --no-install-recommends ${packages[*]}"
    have apt-get || die "missing here: ${packages[*]} (Debian's names); install them, then run this again"
    if [ "$(id -u)" -eq 0 ]; then
        as_root=()
    elif have sudo && sudo -n true 2>/dev/null; then
        as_root=(sudo -n)
    else
        die "not root, and no sudo without a password; run as root, then try again: $install"
    fi
    say "installing ${packages[*]}"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${packages[@]}"
    base=$(scripts/python.sh base) || true
fi

lists=(requirements.txt)
[ "${1:-all}" != all ] || lists+=(requirements-test.txt)
if [ -n "$given" ]; then
    "$given" scripts/requirements.py "${lists[@]}" ||
        say "using $given as it is; to add what is listed: $given -m pip install ${lists[*]/#/-r }"
    exit 0
fi

stamp=.venv/.moontensor
is_installed() { # these lists, says the stamp
    [ -f "$stamp" ] && cat "$@" | cmp -s - "$stamp"
}
if { is_installed "${lists[@]}" || is_installed requirements.txt requirements-test.txt; } &&
    .venv/bin/python scripts/requirements.py "${lists[@]}" >/dev/null; then
    exit 0
fi
if [ ! -x .venv/bin/python ]; then
    [ -n "$base" ] || die "no CPython 3.11 or later with a shared libpython here; install libpython3.11, or set PYTHON"
    say "making .venv from $base"
    "$base" -m venv .venv
fi
if ! .venv/bin/python scripts/requirements.py --import "${lists[@]}"; then
    say "installing ${lists[*]} into .venv"
    .venv/bin/python -m pip install --disable-pip-version-check "${lists[@]/#/-r}"
    .venv/bin/python scripts/requirements.py --import "${lists[@]}" || die "pip installed something else than ${lists[*]} names"
fi
cat "${lists[@]}" > "$stamp"
