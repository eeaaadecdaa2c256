#!/usr/bin/env bash
# The rules that no compiler holds.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/report.sh

files() { # files that git has or would take; all of them outside a checkout
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files --cached --others --exclude-standard -- "$@"
    else
        for path in "$@"; do find "$path" -type f -not -path './.venv/*' -not -path './build/*' -not -path './out/*'; done
    fi | sort -u | while read -r path; do [ -f "$path" ] && printf '%s\n' "$path"; done
}
in_c() { files "$@" | grep -E '\.(c|h|def|inc|cu|m)$'; }
refuse() { # refuse PATTERN FILES...: no line may match
    local pattern=$1
    shift
    [ $# -gt 0 ] || { echo "no files to look at"; return 1; }
    ! grep -InHE "$pattern" "$@" # no binary files
}

lua_include='^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"](lua|lauxlib|lualib|luaconf)'
python_include='^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"](Python\.h|numpy/|cpython/)'
# src/python may name Lua, Python, NumPy, the C library, its own headers and our public ones
foreign_to_bridge='^[[:space:]]*#[[:space:]]*include[[:space:]]*"(\.\.|core/|src/|devices/|device\.h|tensor\.h|storage\.h|ops\.h)'
export ALLOCATION='(^|[^.])\b(malloc|calloc|realloc|aligned_alloc|posix_memalign|mmap|cudaMalloc)[[:space:]]*\('

mapfile -t below < <(in_c src/core devices)
mapfile -t lua_side < <(in_c src/lua)
mapfile -t bridge < <(in_c src/python)
mapfile -t sources < <(files src devices include spec examples | grep -E '\.[ch]$')

check "layering: no Lua in src/core and devices" refuse "$lua_include" "${below[@]}"
check "layering: no Python in src/core, devices and src/lua" refuse "$python_include" "${below[@]}" "${lua_side[@]}"
check "layering: src/python sees core through its public header alone" refuse "$foreign_to_bridge" "${bridge[@]}"
check "layering: no tensor data is allocated above devices" refuse "$ALLOCATION" "${lua_side[@]}"
check "layering: core allocates headers only (src/core/memory.c), and maps files (src/core/mapping.c)" bash -c '
    ! printf "%s\n" "$@" | grep -vE "src/core/(memory|mapping)\.c$" | grep "^src/core/" | xargs grep -nHE "$ALLOCATION"' _ "${below[@]}"
mapfile -t code < <(in_c src devices)
check "no function over 80 lines, no file over 800, but for what CONTRIBUTING.md lists" "${LUA:-lua5.4}" scripts/sizes.lua "${code[@]}"
mapfile -t tracked < <(files . | grep -vE '^(\./)?scripts/lint\.sh$')
# where some machine keeps things is no business of the repository's
check "no machine's paths in the files" refuse '(^|[^[:alnum:]_.])/(root|home|work|Users)/[[:alnum:]_.-]+' "${tracked[@]}"
check "no trailing blanks" refuse '[[:blank:]]$' "${tracked[@]}"

if command -v luacheck >/dev/null; then check "luacheck" luacheck -q . bin/moontensor; else skip luacheck "not installed (lua-check)"; fi
if [ -f scripts/docs.lua ]; then
    check "generated documentation is fresh" scripts/env.sh "${LUA:-lua5.4}" scripts/docs.lua --check
else
    skip docs "scripts/docs.lua is not there"
fi
if command -v clang-format >/dev/null; then
    formatted() { # the files that clang-format would change
        local list
        list=$(for path in "$@"; do clang-format "$path" | cmp -s - "$path" || echo "clang-format -i $path"; done)
        echo "$list"
        [ -z "$list" ]
    }
    check "clang-format" formatted "${sources[@]}"
else
    skip clang-format "not installed (clang-format)"
fi
if command -v cppcheck >/dev/null; then
    check "cppcheck" cppcheck -q --std=c11 --error-exitcode=1 --inline-suppr \
        --suppress=unknownMacro --suppress=uninitvar -j2 -Iinclude src devices
else
    skip cppcheck "not installed (cppcheck)"
fi
report
