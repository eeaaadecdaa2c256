"""Losses of 200 steps on a synthetic classification of 60,000 rows of 784, as hexadecimal floats: bench/losses.lua's twin.

    python bench/losses.py [rows]
"""

import sys

import torch
from torch import nn

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 60000
FEATURES, CLASSES, BATCH, STEPS = 784, 10, 256, 200

torch.set_num_threads(1)
torch.manual_seed(1)
x = torch.randn(ROWS, FEATURES)
teacher = torch.randn(FEATURES, CLASSES)
y = (x @ teacher).argmax(1)

model = nn.Sequential(nn.Linear(FEATURES, 128), nn.ReLU(), nn.Linear(128, CLASSES))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
dataset = torch.utils.data.TensorDataset(x, y)
loader = torch.utils.data.DataLoader(dataset, batch_size=BATCH, shuffle=True)

step = 0
while step < STEPS:
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
        print(loss.item().hex())
        step += 1
        if step == STEPS:
            break
