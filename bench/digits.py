"""The training loop of examples/digits.lua in Python: the reference of the digits row, and the demo's twin.

    python bench/digits.py [epochs]      prints the accuracy of three seeds
"""

import sys

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = 32
LR = 3e-3


def data():
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0)).numpy()
    x = (digits.data / 16).astype(np.float32)[order]
    y = digits.target[order]
    split = len(y) * 4 // 5
    return [torch.from_numpy(np.ascontiguousarray(a)) for a in (x[:split], y[:split], x[split:], y[split:])]


class Run:
    def __init__(self, x, y, epochs, seed):
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        self.loader = DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LR)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=epochs)
        self.criterion = nn.CrossEntropyLoss()

    def epoch(self):
        total = 0.0
        for xb, yb in self.loader:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(xb), yb)
            loss.backward()
            self.optimizer.step()
            total += loss.item() * len(yb)
        self.schedule.step()
        return total

    def accuracy(self, x, y):
        with torch.no_grad():
            return (self.model(x).argmax(1) == y).float().mean().item()


def main(epochs):
    torch.set_num_threads(1)
    train_x, train_y, test_x, test_y = data()
    results = []
    for seed in (1, 2, 3):
        run = Run(train_x, train_y, epochs, seed)
        for _ in range(epochs):
            run.epoch()
        results.append(run.accuracy(test_x, test_y))
    print(results, sum(results) / 3)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
