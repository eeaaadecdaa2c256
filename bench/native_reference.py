"""NumPy's and torch's side of bench/native.lua: the same operands, each statement timed by a loop of its own."""

import time

import numpy as np
import torch

clock = time.perf_counter


def operands(n, side):
    """Whatever the rows name, over n elements; matrices have side columns."""
    x, y = torch.rand(n), torch.rand(n)
    scope = {"np": np, "torch": torch, "clock": clock}
    tensors = {
        "x": x, "y": y, "o": torch.zeros(n), "h": x.half(), "k": y.half(), "oh": torch.zeros(n).half(),
        "ob": torch.zeros(n, dtype=torch.bool), "d": x.double(), "i8": (x * 100).to(torch.int8),
        "s": torch.rand(2 * n)[::2], "c": x < 0.5, "om": torch.zeros(n // side, side), "m": x.view(-1, side),
    }
    scope.update({"t_" + name: t for name, t in tensors.items()})
    scope.update({"n_" + name: t.numpy() for name, t in tensors.items()})
    scope["t_obf"] = torch.zeros(n, dtype=torch.bfloat16)
    return scope


def large_operand(n):
    x = torch.rand(n)
    return {"np": np, "torch": torch, "clock": clock, "t_x": x, "n_x": x.numpy()}


def products(side):
    a, b = torch.rand(side, side), torch.rand(side, side)
    return {"np": np, "torch": torch, "clock": clock, "t_a": a, "t_b": b, "n_a": a.numpy(), "n_b": b.numpy()}


def timer(scope, statement):
    """A function n -> nanoseconds a step of a CPython loop around statement."""
    scope = dict(scope)
    exec(
        "def f(n, c=clock):\n"
        "    t0 = c()\n"
        "    for i in range(n):\n"
        f"        {statement}\n"
        "    return (c() - t0) / n * 1e9\n",
        scope,
    )
    return scope["f"]


def pause(seconds=0.012):
    """Until the other side's idle workers have stopped spinning."""
    time.sleep(seconds)


def draw(curves, sizes, path, caption):
    """curves[operation][side] is a list of nanoseconds, one for each of sizes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(11, 7.5), sharex=True)
    for axis, (operation, sides) in zip(axes.flat, sorted(curves.items())):
        for side, values in sorted(sides.items()):
            axis.loglog(sizes, [v / n for v, n in zip(values, sizes)], marker="o", markersize=3, label=side)
        axis.set_title(operation)
        axis.set_ylabel("ns an element")
        axis.grid(True, which="both", alpha=0.25)
        axis.legend()
    for axis in axes[1]:
        axis.set_xlabel("float32 elements")
    figure.suptitle(caption)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
