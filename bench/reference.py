"""The references that bench/run.lua measures against, timed by CPython itself in the same process."""

import math
import threading
import time

import numpy as np
import torch
import tvm_ffi

clock = time.perf_counter


class Plain:
    def __init__(self):
        self.x = 1.5

    def m(self, a):
        return a


def named(value=0):
    return value


def fail():
    raise ValueError("no")


p = Plain()
items = list(range(100))
z = complex(1, 2)
sqrt = math.sqrt
t = torch.arange(12.0).reshape(3, 4)
a = np.arange(12, dtype=np.float32).reshape(3, 4)
row = np.arange(8, dtype=np.float32)
other = np.ones(8, dtype=np.float32)
memory = memoryview(bytearray(96)).cast("d")


def timer(statement):
    """A function n -> nanoseconds a step of a CPython loop around statement."""
    scope = dict(globals())
    statement = statement.replace("\n", "\n        ")
    exec(
        "def f(n, c=clock):\n"
        "    t0 = c()\n"
        "    for i in range(n):\n"
        f"        {statement}\n"
        "    return (c() - t0) / n * 1e9\n",
        scope,
    )
    return scope["f"]


class Busy:
    """A thread that runs Python code all the time."""

    def __enter__(self):
        self.stop = False
        self.thread = threading.Thread(target=self.spin)
        self.thread.start()

    def spin(self):
        while not self.stop:
            pass

    def __exit__(self, *_):
        self.stop = True
        self.thread.join()


busy = Busy()


def call_each(function, n):
    """Nanoseconds a call of function(i), from Python."""
    t0 = clock()
    for i in range(n):
        function(i)
    return (clock() - t0) / n * 1e9


def successor(x):
    return x + 1
