#!/usr/bin/env bash
# Both modules under ASan and UBSan, in a build of their own: every spec but the README's, with NumPy and torch themselves
# as they are. Leaks are spec/c's business (make -C spec/c asan): an embedded CPython never frees all it has.
set -uo pipefail
cd "$(dirname "$0")/.."
export BUILD=build/asan
cc=${CC:-cc}
flags="-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
make --no-print-directory -s -j"$(nproc)" all CFLAGS="$flags" LDFLAGS="-fsanitize=address,undefined" || exit 1

# lua itself is not instrumented, so the runtime comes first, and C++'s with it: else it finds no __cxa_throw to wrap
runtime=$("$cc" -print-file-name=libasan.so)
[ -e "$runtime" ] || { echo "no libasan for $cc; apt-get install gcc"; exit 1; }
runtime="$runtime $("$cc" -print-file-name=libstdc++.so.6)"
mapfile -t specs < <(find spec -name '*_spec.lua' ! -name readme_spec.lua | sort)
[ ${#specs[@]} -gt 0 ] || { echo "no specs to run"; exit 1; }
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:handle_segv=1:detect_stack_use_after_return=0
export UBSAN_OPTIONS=print_stacktrace=1
# huge allocations are tested for their clean refusal
ASAN_OPTIONS+=:allocator_may_return_null=1
# pymalloc would hide misuse of Python's small blocks
export PYTHONMALLOC=malloc

# a process for each file: a report ends the process
status=0
for spec in "${specs[@]}"; do
    out=$(LD_PRELOAD=$runtime scripts/env.sh scripts/busted.sh "$spec" 2>&1) || status=1
    printf '%s\n' "$out"
    grep -qE '^[0-9]+ passed, ' <<<"$out" || { echo "FAIL $spec: it did not finish"; echo "0 passed, 1 failed, 0 skipped"; status=1; }
done
exit $status
