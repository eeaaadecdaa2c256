#!/usr/bin/env bash
# Every example at its small size: each asserts its own results and exits non-zero otherwise. Then the programs of bench/ that
# have a twin in Python: the same losses, and no more memory.
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
python=$(scripts/env.sh sh -c 'echo "${MOONTENSOR_PYTHON:-python3}"')
has() { "$python" -c 'import sys, importlib.util as u; sys.exit(not all(map(u.find_spec, sys.argv[1:])))' "$@"; }
torchrun() { # torchrun NAME: two processes that meet on the loopback device
    (cd "$scratch" && GLOO_SOCKET_IFNAME=lo OMP_NUM_THREADS=1 "$root/scripts/env.sh" "$python" -m torch.distributed.run --no-python \
        --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:0 --local-addr 127.0.0.1 "$lua" "$root/examples/$1.lua")
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
    inference)
        check "inference" says '^memory after 10000 requests over that after 1000: ' run inference
        check "inference saves both models" eval 'made out/traced.pt && made out/exported.pt2'
        ;;
    ddp) check "ddp on two processes" says '^rank 1 of 2: ' torchrun ddp ;;
    gpt2) if has tokenizers transformers; then check "gpt2" run gpt2; else skip gpt2 "needs tokenizers and transformers"; fi ;;
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

bench() { (cd "$scratch" && "$root/scripts/env.sh" "$lua" "$root/bench/$1.lua" "${@:2}"); }
same_losses() {
    bench losses > "$scratch/lua.txt" && "$python" bench/losses.py > "$scratch/python.txt" &&
        [ "$(wc -l < "$scratch/python.txt")" -eq 200 ] && diff "$scratch/lua.txt" "$scratch/python.txt"
}
peak_memory() {
    local ours theirs done_of
    read -r ours done_of <<<"$(bench memory)"
    read -r theirs _ <<<"$("$python" bench/memory.py)"
    echo "Lua $ours KiB after ${done_of:-0} of 500, Python $theirs KiB"
    [ "${done_of:-0}" -eq 500 ] && [ "$((ours * 10))" -le "$((theirs * 12))" ]
}
steady_memory() {
    local grown
    grown=$(bench calls) && echo "grew by $grown KiB" && [ "$grown" -lt 5120 ]
}
check "200 losses are Python's to the last bit" same_losses
check "500 temporaries of 64 MB take at most 1.2 times Python's memory" peak_memory
check "100,000 calls of a model: memory grows by less than 5 MB" steady_memory

moontensor() { (cd "$scratch" && "$root/scripts/env.sh" "$lua" "$root/bin/moontensor" "$@"); }
nothing_wrong() { says '^nothing is wrong$' moontensor doctor; }
arguments() { echo 'print(arg[0], arg[1], #arg)' > "$scratch/args.lua"; says "^args.lua[[:space:]]x[[:space:]]1\$" moontensor args.lua x; }
refuses() { ! moontensor -e 'error "no"'; }
check "moontensor -e" says '^6\.0$' moontensor -e 'print(py.import("math").fsum(py.list{1, 2, 3}))'
check "moontensor script arguments" arguments
check "moontensor ends with status 1 after an error" refuses
check "moontensor doctor" nothing_wrong
report
