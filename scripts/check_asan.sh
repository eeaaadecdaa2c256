#!/usr/bin/env bash
# Both modules under ASan and UBSan, in a build of their own: every spec of the core, and those specs of the bridge that
# need no torch. Leaks are spec/c's business (make -C spec/c asan): an embedded CPython never frees all it has.
set -uo pipefail
cd "$(dirname "$0")/.."
export BUILD=build/asan
cc=${CC:-cc}
flags="-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
make --no-print-directory -s -j"$(nproc)" all CFLAGS="$flags" LDFLAGS="-fsanitize=address,undefined" || exit 1

# lua itself is not instrumented, so the runtime comes first
runtime=$("$cc" -print-file-name=libasan.so)
[ -e "$runtime" ] || { echo "no libasan for $cc; apt-get install gcc"; exit 1; }
mapfile -t specs < <(find spec -name '*_spec.lua' -print0 | sort -z | xargs -0 grep -LE 'torch|sklearn|matplotlib|SKIP_ASAN')
[ ${#specs[@]} -gt 0 ] || { echo "no specs to run"; exit 1; }
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:handle_segv=1:detect_stack_use_after_return=0
export UBSAN_OPTIONS=print_stacktrace=1
# huge allocations are tested for their clean refusal
ASAN_OPTIONS+=:allocator_may_return_null=1
# pymalloc would hide misuse of Python's small blocks
export PYTHONMALLOC=malloc
export LD_PRELOAD=$runtime
exec scripts/env.sh scripts/busted.sh "${specs[@]}"
