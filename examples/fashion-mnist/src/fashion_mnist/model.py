"""The network of the walk-through: two convolutions and two linear layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Net(nn.Module):
    """Maps images (batch, 1, 28, 28) to log-probabilities (batch, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(4 * 4 * 50, 500)
        self.fc2 = nn.Linear(500, 10)

    def forward(self, images: Tensor) -> Tensor:
        hidden = F.max_pool2d(F.relu(self.conv1(images)), 2)
        hidden = F.max_pool2d(F.relu(self.conv2(hidden)), 2)
        hidden = F.relu(self.fc1(torch.flatten(hidden, 1)))
        return F.log_softmax(self.fc2(hidden), dim=1)
