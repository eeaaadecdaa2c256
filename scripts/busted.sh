#!/bin/sh
# busted under Lua 5.4, whichever Lua its own command starts, with our output and the modules of $BUILD.
cd "$(dirname "$0")/.." || exit 1
exec "${LUA:-lua5.4}" scripts/busted.lua --ignore-lua --output=spec/support/plain.lua --cpath="${BUILD:-build}/?.so" "$@"
