#!/usr/bin/env bash
# Installation by LuaRocks into private trees, and what users meet there: no Python at all, each way of naming an
# interpreter, and each way in which that goes wrong.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/report.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
lua=$(command -v "${LUA:-lua5.4}")
# settings of this checkout must not leak into the installed package
unset LUA_PATH LUA_CPATH LUA_PATH_5_4 LUA_CPATH_5_4 MOONTENSOR_PYTHON
python=$(scripts/python.sh run) || { echo "no Python to build the bridge with: make setup"; exit 1; }
unset VIRTUAL_ENV PYTHON

# a checkout of its own, so that nothing built here is in reach
checkout=$scratch/checkout
mkdir -p "$checkout"
tar -c --exclude=./.git --exclude=./.venv --exclude=./build --exclude=./out . | tar -x -C "$checkout"

headers=$(make -s --eval 'where: ; @echo $(LUA_INCDIR)' where)

# a PATH with everything but Python
nopy=$scratch/bin
mkdir "$nopy"
for dir in /usr/local/bin /usr/bin /bin; do
    [ -d "$dir" ] && find "$dir" -maxdepth 1 ! -name 'python*' ! -name 'pip*' ! -type d -exec ln -sf -t "$nopy" {} +
done

rock() { # rock TREE ROCKSPEC [NAME=VALUE...]
    # LuaRocks looks for headers beside the lua that it finds on PATH, which may be a link here
    (cd "$checkout" && env "${@:3}" luarocks --lua-version=5.4 LUA_INCDIR="$headers" make --tree="$1" "rockspec/$2") >"$1.log" 2>&1 || {
        cat "$1.log"
        return 1
    }
}
in_tree() { # in_tree TREE NAME=VALUE... -- COMMAND...: from a folder that is no checkout, without Python on PATH
    local tree=$1 settings=()
    shift
    while [ "$1" != -- ]; do settings+=("$1"); shift; done
    shift
    (cd "$scratch/app" && env -i HOME="$HOME" PATH="$nopy" LUA_PATH_5_4="$tree/share/lua/5.4/?.lua;$tree/share/lua/5.4/?/init.lua" \
        LUA_CPATH_5_4="$tree/lib/lua/5.4/?.so" "${settings[@]}" "$@")
}
says() { # says TEXT COMMAND...: it succeeds, and its output holds TEXT
    local text=$1 out
    shift
    out=$("$@" 2>&1) || { printf '%s\n' "$out"; return 1; }
    grep -qF -- "$text" <<<"$out" || { printf 'not said: %s\nbut: %s\n' "$text" "$out"; return 1; }
}
complains() { # complains PATTERN COMMAND...: the Lua script catches an error that matches, and no crash
    local pattern=$1 out status
    shift
    out=$("$@" 2>&1)
    status=$?
    [ $status -eq 1 ] || { printf 'status %s, not 1: %s\n' "$status" "$out"; return 1; }
    grep -qiE -- "$pattern" <<<"$out" || { printf 'no match for %s in: %s\n' "$pattern" "$out"; return 1; }
}
script() { # script NAME CODE
    mkdir -p "$(dirname "$scratch/app/$1")"
    printf '%s\n' "$2" > "$scratch/app/$1"
}

mkdir "$scratch/app"
script native.lua 'local moon = require "moontensor" print(moon.arange(3):astype("float64"):div(2))'
script sys.lua 'print("prefix " .. require "moontensor.python".import "sys".prefix)'
script asks_numpy.lua 'require "moontensor.python".import "sys" print(require "moontensor".zeros(2):to_numpy())'
script torch.lua 'print(require "moontensor.torch".zeros(1))'

core=$scratch/core whole=$scratch/whole
check "luarocks make without Python headers" rock "$core" moontensor-scm-1.rockspec PYTHON=/nonexistent/python3 PATH="$nopy"
check "it says that the bridge was left out, and the command that adds it" grep -q 'bridge.so left out.*to add it: .*python3-dev' "$core.log"
check "it installs the core alone" bash -c "test -f '$core/lib/lua/5.4/moontensor/core.so' && ! test -e '$core/lib/lua/5.4/moontensor/bridge.so'"
check "core alone: tensors work" says '[0' in_tree "$core" -- "$lua" native.lua
check "core alone: moontensor.python is a directed error" complains 'bridge' in_tree "$core" MOONTENSOR_PYTHON="$python" -- "$lua" sys.lua
check "core alone: doctor works, and says what is missing" complains 'bridge\.so was not built' in_tree "$core" -- "$lua" "$checkout/bin/moontensor" doctor

check "luarocks make with Python headers" rock "$whole" moontensor-scm-1.rockspec PYTHON="$python"
check "it installs core and bridge" test -f "$whole/lib/lua/5.4/moontensor/core.so" -a -f "$whole/lib/lua/5.4/moontensor/bridge.so"
check "it installs the public headers" test -n "$(find "$whole" -name moontensor.h)"
check "luarocks make of the release rockspec" rock "$scratch/release" moontensor-0.1.0-1.rockspec PYTHON="$python"
check "make install" make -s -C "$checkout" install PYTHON="$python" PREFIX="$scratch/prefix"
check "make install: the same modules" test -f "$scratch/prefix/lib/lua/5.4/moontensor/bridge.so" -a -f "$scratch/prefix/share/lua/5.4/moontensor/doctor.lua" -a -x "$scratch/prefix/bin/moontensor"
check "make install: nothing but modules beside other packages'" bash -c "! find '$scratch/prefix/share/lua' -type f ! -name '*.lua' | grep ."
check "require moontensor with no Python on PATH" says '[0' in_tree "$whole" -- "$lua" native.lua
check "the moontensor command of the tree" says 'moontensor ' in_tree "$whole" -- "$whole/bin/moontensor" -v

# four ways to name an interpreter
venv=$scratch/venv
"$python" -m venv --without-pip "$venv" || exit 1
# a copy below the application, for the search beside the script
"$python" -m venv --without-pip "$scratch/app/beside/.venv" || exit 1
cp "$scratch/app/sys.lua" "$scratch/app/beside/sys.lua"
check "VIRTUAL_ENV chooses the interpreter" says "prefix $venv" in_tree "$whole" VIRTUAL_ENV="$venv" -- "$lua" sys.lua
check "MOONTENSOR_PYTHON chooses the interpreter" says "prefix $venv" in_tree "$whole" MOONTENSOR_PYTHON="$venv/bin/python" -- "$lua" sys.lua
check "MOONTENSOR_PYTHON goes before VIRTUAL_ENV" says "prefix $venv" in_tree "$whole" MOONTENSOR_PYTHON="$venv/bin/python" VIRTUAL_ENV="$scratch/app/beside/.venv" -- "$lua" sys.lua
check ".venv beside the script chooses the interpreter" says "prefix $scratch/app/beside/.venv" in_tree "$whole" -- "$lua" beside/sys.lua
check "python3 on PATH chooses the interpreter" says "prefix $venv" in_tree "$whole" PATH="$venv/bin:$nopy" -- "$lua" sys.lua
debian=/usr/bin/python3.11
if [ -x "$debian" ] && ls /usr/lib/*/libpython3.11.so.1.0 >/dev/null 2>&1; then
    check "Debian's own python3.11" says "prefix /usr" in_tree "$whole" MOONTENSOR_PYTHON="$debian" -- "$lua" sys.lua
    check "Debian's own python3.11 as python3 on PATH" bash -c "mkdir '$scratch/deb' && ln -s '$debian' '$scratch/deb/python3'"
    check "it is found there" says "prefix /usr" in_tree "$whole" PATH="$scratch/deb:$nopy" -- "$lua" sys.lua
else
    skip "Debian's own python3.11" "no /usr/bin/python3.11 with libpython3.11 here"
fi

# what goes wrong, each with a way out
# interpreters without a shared library are rare now: this one only says that it has none
mkdir "$scratch/static"
cat > "$scratch/static/sitecustomize.py" <<'PY'
import sysconfig
real, real_all = sysconfig.get_config_var, sysconfig.get_config_vars
fake = {"Py_ENABLE_SHARED": 0, "LDLIBRARY": "libpython3.11.a", "INSTSONAME": "libpython3.11.a", "LIBDIR": "/nonexistent"}
sysconfig.get_config_var = lambda name: fake[name] if name in fake else real(name)
sysconfig.get_config_vars = lambda *names: [fake.get(n, real(n)) for n in names] if names else {**real_all(), **fake}
PY
printf '#!/bin/sh\nPYTHONPATH=%s exec %s "$@"\n' "$scratch/static" "$venv/bin/python" > "$scratch/static/python3"
chmod +x "$scratch/static/python3"
printf '#!/bin/sh\nexit 3\n' > "$scratch/static/broken"
chmod +x "$scratch/static/broken"
check "no interpreter anywhere: the error lists what was tried" complains 'tried' in_tree "$whole" -- "$lua" sys.lua
check "MOONTENSOR_PYTHON names nothing: the error names it" complains '/nonexistent/python3' in_tree "$whole" MOONTENSOR_PYTHON=/nonexistent/python3 -- "$lua" sys.lua
check "an interpreter that does not run: the error names it" complains 'static/broken' in_tree "$whole" MOONTENSOR_PYTHON="$scratch/static/broken" -- "$lua" sys.lua
check "a static libpython: the error says so" complains '(shared|static).*libpython|libpython.*(shared|static)' in_tree "$whole" MOONTENSOR_PYTHON="$scratch/static/python3" -- "$lua" sys.lua
check "no NumPy: the error names the command" complains 'numpy.*install|install.*numpy' in_tree "$whole" MOONTENSOR_PYTHON="$venv/bin/python" -- "$lua" asks_numpy.lua
check "no torch: the error names the command" complains 'torch.*install|install.*torch' in_tree "$whole" MOONTENSOR_PYTHON="$venv/bin/python" -- "$lua" torch.lua
check "doctor without an interpreter names a command" complains 'mend it' in_tree "$whole" -- "$whole/bin/moontensor" doctor
report
