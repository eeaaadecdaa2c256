#!/usr/bin/env bash
# Run stages one after another, whatever fails, and end with the sum of what they counted.
#   scripts/test.sh [stage ...]      all of them without arguments
# Each stage prints lines "N passed, N failed, N skipped"; one that exits non-zero without a failure counts as one.
set -uo pipefail
cd "$(dirname "$0")/.."
logs=${BUILD:-build}/test
mkdir -p "$logs"

build() {
    make --no-print-directory -s -j"$(nproc)" all && echo "1 passed, 0 failed, 0 skipped"
}
specs() { COVERAGE=1 scripts/env.sh scripts/busted.sh; }
c() { env -u BUILD make --no-print-directory -s -j"$(nproc)" -C spec/c test; }
c_asan() { env -u BUILD make --no-print-directory -s -j"$(nproc)" -C spec/c asan; }
c_tsan() { env -u BUILD make --no-print-directory -s -j"$(nproc)" -C spec/c tsan; }
mutants() { "$(scripts/python.sh run)" spec/mutants/run.py; }
lint() { scripts/lint.sh; }
asan() { scripts/check_asan.sh; }
valgrind() { scripts/check_valgrind.sh; }
symbols() { scripts/check_symbols.sh; }
rocks() { scripts/check_rocks.sh; }
examples() { scripts/check_examples.sh; }
threads() { scripts/check_threads.sh; }
sweep() { scripts/check_sweep.sh; }
fuzz() { # 60 s each target, two at a time
    env -u BUILD make --no-print-directory -s -j"$(nproc)" -C spec/fuzz run SECONDS="${FUZZ_SECONDS:-60}"
}

if [ $# -eq 0 ]; then
    set -- build specs c mutants c_asan c_tsan fuzz lint symbols examples threads sweep rocks asan valgrind
fi
passed=0 failed=0 skipped=0 summary=()
for stage in "$@"; do
    echo "== $stage"
    start=$(date +%s.%N)
    "$stage" </dev/null 2>&1 | tee "$logs/$stage.log" | sed -u -E 's/^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/  &/'
    status=${PIPESTATUS[0]}
    read -r p f s < <(awk '/^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ { p += $1; f += $3; s += $5 }
                           END { print p + 0, f + 0, s + 0 }' "$logs/$stage.log")
    if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then
        echo "stage $stage ended with status $status"
        f=1
    elif [ "$status" -eq 0 ] && [ $((p + f)) -eq 0 ]; then
        echo "stage $stage checked nothing"
        f=1
    fi
    seconds=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
    summary+=("$(printf '%-9s %5d passed %3d failed %3d skipped %8s s' "$stage" "$p" "$f" "$s" "$seconds")")
    echo "== $stage: $seconds s"
    echo
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
printf '%s\n' "${summary[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
