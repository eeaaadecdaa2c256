"""Peak resident memory of 500 temporaries of 64 MB: bench/memory.lua's reference. Prints KiB and iterations."""

import torch

x = torch.ones(16 * 1024 * 1024)
for _ in range(500):
    y = x * 2
with open("/proc/self/status", encoding="ascii") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")), 500)
