"""Checkpoints: written whole or not at all, read without running pickled code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer


def save(path: Path, model: nn.Module, optimizer: Optimizer, epoch: int) -> None:
    """Write model, optimizer and the number of finished epochs; a reader sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, partial)
    partial.replace(path)


def load(path: Path, model: nn.Module, optimizer: Optimizer) -> int:
    """Restore model and optimizer and return the number of finished epochs; 0 when there is no checkpoint."""
    if not path.is_file():
        return 0
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["epoch"])
