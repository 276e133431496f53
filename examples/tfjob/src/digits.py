"""Pictures of ten digits, made here: eight by eight pixels, each digit a fixed pattern under noise."""

from __future__ import annotations

import numpy as np


def make_digits(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return `count` pictures as rows of 64 pixels, and the digit of each."""
    patterns = np.random.default_rng(0).random((10, 64))
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    noise = random.normal(scale=0.3, size=(count, 64))
    return (patterns[labels] + noise).astype(np.float32), labels.astype(np.int64)
