# Sourced by the checking scripts: every check is counted, and the counts end the output.
passed=0 failed=0 skipped=0

check() { # check NAME COMMAND...: the command's output shows only when it fails
    local name=$1 out
    shift
    if out=$("$@" 2>&1 </dev/null); then
        echo "ok   $name"
        passed=$((passed + 1))
    else
        echo "FAIL $name"
        printf '%s\n' "$out" | sed 's/^/     /'
        failed=$((failed + 1))
    fi
}

skip() { # skip NAME REASON
    echo "skip $1: $2"
    skipped=$((skipped + 1))
}

report() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}
