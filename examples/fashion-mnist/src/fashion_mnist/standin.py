"""A deterministic stand-in for Fashion-MNIST where nothing can be downloaded.

Same shape and formats (60,000 and 10,000 grey images of 28 x 28, 10 balanced classes). Each class is a smooth
random texture; an image is its class's texture, moved and dimmed at random, with another class's texture mixed
in and noise on top. A linear classifier does poorly on the moves, a small CNN learns it in an epoch, and the
mix keeps it from being trivial.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fashion_mnist.idx import Images, Labels

SIZE = 28
CLASSES = 10
COUNTS = {"train": 60_000, "test": 10_000}
_MARGIN = 3
_SEEDS = {"train": 1, "test": 2}


def make(split: str, count: int | None = None) -> tuple[Images, Labels]:
    """Return images and labels of a split ("train" or "test"); the same arguments give the same bytes."""
    count = COUNTS[split] if count is None else count
    prototypes = _prototypes()
    rng = np.random.Generator(np.random.PCG64(_SEEDS[split]))
    labels = np.resize(np.arange(CLASSES, dtype=np.uint8), count)
    rng.shuffle(labels)
    others = (labels + rng.integers(1, CLASSES, count)) % CLASSES
    share = rng.uniform(0.0, 0.55, count).astype(np.float32)[:, None, None]
    gain = rng.uniform(0.5, 1.0, count).astype(np.float32)[:, None, None]
    clean = (1 - share) * _moved(prototypes, labels, rng) + share * _moved(prototypes, others, rng)
    noise = rng.standard_normal((count, SIZE, SIZE), dtype=np.float32) * np.float32(0.18)
    images = np.clip((clean * gain + noise) * 255, 0, 255).astype(np.uint8)
    return images, labels


def _prototypes() -> npt.NDArray[np.float32]:
    """Return one texture per class, larger than an image by the margin it is moved in; values 0 to 1."""
    rng = np.random.Generator(np.random.PCG64(0))
    side = SIZE + 2 * _MARGIN
    coarse = rng.standard_normal((CLASSES, side, side)).astype(np.float32)
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.fftfreq(side)[None, :])
    smooth = np.fft.ifft2(np.fft.fft2(coarse) * np.exp(-((frequency / 0.09) ** 2))).real
    low = smooth.min(axis=(1, 2), keepdims=True)
    high = smooth.max(axis=(1, 2), keepdims=True)
    return ((smooth - low) / (high - low)).astype(np.float32)


def _moved(
    prototypes: npt.NDArray[np.float32], classes: npt.NDArray[np.integer], rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Return each class's texture cut out at a random offset of up to the margin on each side."""
    windows = np.lib.stride_tricks.sliding_window_view(prototypes, (SIZE, SIZE), axis=(1, 2))
    offsets = rng.integers(0, 2 * _MARGIN + 1, (2, len(classes)))
    return windows[classes, offsets[0], offsets[1]]
