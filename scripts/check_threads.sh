#!/usr/bin/env bash
# Four Lua states on four threads and two Python threads that call them back (spec/support/states.c, crowd), a minute as built
# and a minute under TSan, with NumPy as it is. THREADS_SECONDS sets another time.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/report.sh
seconds=${THREADS_SECONDS:-60}
cc=${CC:-cc}
lua_inc=$(make -s -f Makefile --eval 'where: ; @echo $(LUA_INCDIR)' where)
lua_lib=$(for name in lua5.4 lua54 lua; do
    echo 'int main(void) { return 0; }' | "$cc" -xc - -o /dev/null "-l$name" 2>/dev/null && echo "-l$name" && break
done)

crowd() { # crowd BUILD FLAGS...
    local build=$1 out
    shift
    BUILD=$build make --no-print-directory -s -j"$(nproc)" all CFLAGS="$*" LDFLAGS="$*" || return 1
    "$cc" -std=c11 -D_GNU_SOURCE -Wall -Werror -Iinclude -I"$lua_inc" "$@" -o "$build/states" spec/support/states.c "$lua_lib" \
        -lpthread || return 1
    out=$(BUILD=$build timeout $((10 * seconds + 300)) scripts/env.sh "$build/states" crowd "$seconds" 2>&1)
    local status=$?
    echo "$out"
    [ $status -eq 0 ] &&
        grep -q '^crossings true calls true true exports 0 imports 0 storages 0 callables 0 queued 0$' <<<"$out"
}
export TSAN_OPTIONS=exitcode=66:halt_on_error=0:die_after_fork=0
check "four states and two Python threads, $seconds s" crowd build/threads -O2 -g
check "the same under TSan" crowd build/tsan -O1 -g -fsanitize=thread
report
