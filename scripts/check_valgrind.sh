#!/usr/bin/env bash
# What needs no Python under valgrind: spec/c, the native specs, a collector that runs at every instruction, and the C module of
# examples/. An invalid access, a use of what was never written, or a block that is definitely lost fails.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/report.sh
unset BUILD
command -v valgrind >/dev/null || { skip valgrind "not installed (valgrind)"; report; exit; }
make --no-print-directory -s -j"$(nproc)" all && make --no-print-directory -s -j"$(nproc)" -C spec/c ../../build/spec/c/core_test || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export scratch lua=${LUA:-lua5.4} FOUND=99
eval "$(scripts/env.sh)"
export MOONTENSOR_PYTHON=none # a spec that starts Python fails
export MOONTENSOR_ISA=base # valgrind lacks AVX-512, and of AVX2's instructions some encodings

ground() {
    valgrind -q --error-exitcode="$FOUND" --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite "$@"
}
one() { # one KIND WHAT: its output and status into the scratch folder
    local log=$scratch/${2//\//-}.log
    case $1 in
    c) ground build/spec/c/core_test --quick "$2" ;;
    # the usual helper loads the bridge, which this one does not
    spec) ground "$lua" scripts/busted.lua --ignore-lua --output=spec/support/plain.lua --helper=moontensor --cpath="build/?.so" "$2" ;;
    stress) ground "$lua" spec/support/stress.lua "$2" ;;
    module) make --no-print-directory -s -C "$scratch/c_module" MOONTENSOR_INCDIR="$PWD/include" &&
                ground "$lua" "$scratch/c_module/main.lua" ;;
    esac >"$log" 2>&1 </dev/null
    echo $? >"$log.status"
}
export -f ground one

cp -r examples/c_module "$scratch"
# valgrind has long double in 64 bits only, so the values that these suites compute with it are wrong; the accesses are not
rough='^(ops|dtype|copy|reduce)$'
# the longest first; not level, which compares the instruction sets
suites=(ops dtype pool reduce vector copy format index files dlpack view storage memory)
mapfile -t specs < <(find spec -name '*_spec.lua' ! -name 'python_*' ! -name 'readme_*' ! -name 'stress_*' -print0 | sort -z |
    xargs -0 grep -LE 'require "(moontensor\.(python|torch|numpy)|spec\.support\.(exchange|indices))"')
jobs=('stress full' "${suites[@]/#/c }" "${specs[@]/#/spec }" 'module c_module')
[ ${#specs[@]} -ge 8 ] || { echo "only ${#specs[@]} specs need no Python: ${specs[*]}"; exit 1; }
printf '%s\n' "${jobs[@]}" | xargs -P "$(nproc)" -L 1 bash -c 'one "$@"' _

went_well() { # went_well KIND WHAT
    local log=$scratch/${2//\//-}.log status
    status=$(cat "$log.status")
    cat "$log"
    if [ "$1" = c ]; then
        grep -qE '^[1-9][0-9]* passed, [0-9]+ failed$' "$log" || return 1
        [[ ! $2 =~ $rough ]] || { [ "$status" -le 1 ]; return; }
    fi
    [ "$status" -eq 0 ]
}
for job in "${jobs[@]}"; do
    read -r kind what <<<"$job"
    check "valgrind: $job" went_well "$kind" "$what"
done
report
