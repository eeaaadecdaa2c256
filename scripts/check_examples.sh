#!/usr/bin/env bash
# Every example at its small size. Each asserts its own results and exits non-zero otherwise.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/report.sh
root=$PWD lua=${LUA:-lua5.4}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

run() { (cd "$scratch" && "$root/scripts/env.sh" "$lua" "$root/examples/$1.lua" "${@:2}"); }
made() { test -s "$scratch/$1"; }
says() { # says PATTERN COMMAND...
    local pattern=$1 out
    shift
    out=$("$@" 2>&1) || { echo "$out"; return 1; }
    grep -qE "$pattern" <<<"$out" || { echo "no line matches $pattern in:"; echo "$out"; return 1; }
}
for path in examples/*.lua; do
    name=$(basename "$path" .lua)
    case $name in
    digits)
        check "digits --quick" says '^mean accuracy of 1 seed: 0\.9' run digits --quick
        check "digits draws its picture" made out/digits.png
        check "digits saves its model" made out/digits.pt
        ;;
    plot)
        check "plot" run plot
        check "plot draws its picture" made out/plot.png
        ;;
    *) check "$name" run "$name" ;;
    esac
done
# the C module in a folder of its own: with the two public headers, and nothing else of the checkout's
cp -r examples/c_module "$scratch" && mkdir "$scratch/include" && cp include/moontensor.h include/moontensor_abi.h "$scratch/include"
module() { make --no-print-directory -B -C "$scratch/c_module" MOONTENSOR_INCDIR=../include "$@"; }
headers=$(make -s --eval 'where: ; @echo $(LUA_INCDIR)' where)
strict="-O2 -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wmissing-prototypes -pedantic -Werror"
check "c_module builds" module
check "c_module" says '^counted: tensor' "$root/scripts/env.sh" "$lua" "$scratch/c_module/main.lua"
check "c_module builds without warnings" module LUA_INCDIR="$headers" CFLAGS="$strict"
check "c_module, built so, once more" "$root/scripts/env.sh" "$lua" "$scratch/c_module/main.lua"
moontensor() { (cd "$scratch" && "$root/scripts/env.sh" "$lua" "$root/bin/moontensor" "$@"); }
nothing_wrong() { says '^nothing is wrong$' moontensor doctor; }
arguments() { echo 'print(arg[0], arg[1], #arg)' > "$scratch/args.lua"; says "^args.lua[[:space:]]x[[:space:]]1\$" moontensor args.lua x; }
refuses() { ! moontensor -e 'error "no"'; }
check "moontensor -e" says '^6\.0$' moontensor -e 'print(py.import("math").fsum(py.list{1, 2, 3}))'
check "moontensor script arguments" arguments
check "moontensor ends with status 1 after an error" refuses
check "moontensor doctor" nothing_wrong
report
