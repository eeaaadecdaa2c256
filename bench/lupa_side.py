"""lupa's Lua side: what the same Lua lines cost there. Prints nanoseconds for each, by name; exits 3 without lupa."""

import math
import sys
import time

try:
    try:
        from lupa import lua54 as lupa
    except ImportError:
        import lupa
except ImportError:
    sys.exit(3)


class Plain:
    def __init__(self):
        self.x = 1.5

    def m(self, a):
        return a


LINES = {
    "math.sqrt(2.0)": "local r = m.sqrt(2.0)",
    "p.x": "local r = p.x",
    "p:m(i)": "local r = p.m(i)",  # lupa binds on access
}
lua = lupa.LuaRuntime()
for name, line in LINES.items():
    run = lua.eval(f"function(m, p, clock, n) local t0 = clock() for i = 1, n do {line} end return (clock() - t0) / n * 1e9 end")
    times = sorted(run(math, Plain(), time.perf_counter, 20000) for _ in range(9))
    print(f"{name}\t{times[4]:.1f}")
