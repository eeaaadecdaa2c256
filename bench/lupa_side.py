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


def named(value=0):
    return value


def fail():
    raise ValueError("no")


LINES = {
    "sqrt(2.0)": "sqrt(2.0)",
    "math.sqrt(2.0)": "local r = m.sqrt(2.0)",
    "p.x": "local r = p.x",
    "p:m(i)": "local r = p.m(i)",  # lupa binds on access
    "items[7]": "local r = items[7]",
    "z + z": "local r = z + z",
    "named(py.kw{value = i})": "named(python.args{value = i})",
    "for v in py.iter(items)": "for v in python.iter(items) do local _ = v end",
    "pcall(fail)": "pcall(fail)",
}
lua = lupa.LuaRuntime()
for name, line in LINES.items():
    n = 200 if name.startswith("for") else 20000
    names = "m, sqrt, p, items, z, named, fail, clock, n"
    run = lua.eval(f"function({names}) local t0 = clock() for i = 1, n do {line} end return (clock() - t0) / n * 1e9 end")
    try:
        values = math, math.sqrt, Plain(), lupa.as_itemgetter(list(range(100))), complex(1, 2), named, fail
        times = sorted(run(*values, time.perf_counter, n) for _ in range(9))
    except lupa.LuaError:
        continue  # it has no such operator
    print(f"{name}\t{times[4]:.1f}")
