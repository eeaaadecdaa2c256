#!/bin/sh
# Run a command against this checkout's build, or print the settings that do: eval "$(scripts/env.sh)".
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
LUA_PATH_5_4="$root/lua/?.lua;$root/lua/?/init.lua;;"
LUA_CPATH_5_4="$root/${BUILD:-build}/?.so;;"
if [ -n "$PYTHON" ] || [ -z "$MOONTENSOR_PYTHON" ]; then
    MOONTENSOR_PYTHON=$("$root/scripts/python.sh" run)
fi
if [ $# -gt 0 ]; then
    export LUA_PATH_5_4 LUA_CPATH_5_4
    if [ -n "$MOONTENSOR_PYTHON" ]; then export MOONTENSOR_PYTHON; else unset MOONTENSOR_PYTHON; fi
    exec "$@"
fi
printf "export LUA_PATH_5_4='%s'\nexport LUA_CPATH_5_4='%s'\n" "$LUA_PATH_5_4" "$LUA_CPATH_5_4"
printf "export PATH='%s'\n" "$root/bin:$PATH"
[ -z "$MOONTENSOR_PYTHON" ] || printf "export MOONTENSOR_PYTHON='%s'\n" "$MOONTENSOR_PYTHON"
