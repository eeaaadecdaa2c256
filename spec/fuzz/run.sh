#!/usr/bin/env bash
# Each target for so many seconds, two at a time. What is found that is new stays in OUT/corpus for the next run; an input that
# fails stays in OUT and is named.
#   run.sh SECONDS NAME...
set -uo pipefail
limit=$1
shift
one() {
    local name=$1 log=$OUT/$1.log
    mkdir -p "$OUT/corpus/$name"
    if ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 "$OUT/${name}_fuzz" -max_total_time="$limit" -max_len=8192 \
        -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 -verbosity=1 -artifact_prefix="$OUT/$name-" \
        "$OUT/corpus/$name" "$OUT/seeds/$name" >"$log" 2>&1; then
        awk -v n="$name" '/number_of_executed_units/ { printf "ok   %-12s %d inputs\n", n, $2 }' "$log"
    else
        tail -40 "$log"
        echo "FAIL $name: make -C spec/fuzz crash TARGET=$name INPUT=…, with the input named above"
    fi
}
export -f one
export OUT limit
results=$(printf '%s\n' "$@" | xargs -P 2 -I{} bash -c 'one "$1"' _ {})
echo "$results"
failed=$(grep -c '^FAIL ' <<<"$results")
passed=$(grep -c '^ok ' <<<"$results")
[ $((passed + failed)) -eq $# ] || failed=$(($# - passed))
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
