"""Finds the data: an Arrow dataset, IDX files, a download of them, or the stand-in; says which it was."""

from __future__ import annotations

import fcntl
import shutil
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import TensorDataset

from fashion_mnist import arrow, idx, standin

MIRROR = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
_MARKER = "STAND-IN.txt"
_TIMEOUT_SECONDS = 5


def prepare(root: Path, *, download: bool = True) -> str:
    """Make sure `root` holds both splits and return one line that says what data it is.

    Every rank calls this: the directory may be its pod's own or one that all share. Where it is shared, the
    first one does the work under a lock and the others find it done.
    """
    if not arrow.is_dataset(root) and not complete(root):
        root.mkdir(parents=True, exist_ok=True)
        with (root / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return _prepare(root, download)
    return _prepare(root, download)


def _prepare(root: Path, download: bool) -> str:
    if arrow.is_dataset(root):
        return f"Hugging Face Arrow dataset in {root}{_standin_note(root)}"
    if complete(root):
        return f"IDX files in {root}{_standin_note(root)}"
    if download:
        try:
            for name in (name for pair in idx.FILES.values() for name in pair):
                _download(name, root / name)
            return f"Fashion-MNIST, downloaded to {root}"
        except (OSError, urllib.error.URLError) as error:
            print(f"Fashion-MNIST cannot be downloaded ({error}); making the stand-in", flush=True)
    write_standin(root)
    return f"IDX files in {root}{_standin_note(root)}"


def write_standin(root: Path, counts: dict[str, int] = standin.COUNTS) -> None:
    """Write both splits of the stand-in as IDX files; `counts` gives the images per split."""
    root.mkdir(parents=True, exist_ok=True)
    (root / _MARKER).write_text(
        "Synthetic images in the shape of Fashion-MNIST, made by fashion_mnist/standin.py\n"
    )
    for split, names in idx.FILES.items():
        for name, values in zip(names, standin.make(split, counts[split]), strict=True):
            partial = root / f".{name}.partial"
            idx.write(partial, values)
            partial.rename(root / name)


def complete(root: Path) -> bool:
    """Return whether all four IDX files are there."""
    return all((root / name).is_file() for pair in idx.FILES.values() for name in pair)


def load(root: Path, split: str) -> TensorDataset:
    """Return the split as a dataset of float images (1, 28, 28), normalised, and int64 labels."""
    if arrow.is_dataset(root):
        images, labels = arrow.read(root, split)
    else:
        images_name, labels_name = idx.FILES[split]
        images, labels = idx.read(root / images_name), idx.read(root / labels_name)
    scaled = (images.astype(np.float32) / 255 - 0.2860) / 0.3530  # mean and deviation of Fashion-MNIST
    return TensorDataset(torch.from_numpy(scaled[:, None]), torch.from_numpy(labels.astype(np.int64)))


def _standin_note(root: Path) -> str:
    return " (stand-in: synthetic, not Fashion-MNIST)" if (root / _MARKER).exists() else ""


def _download(name: str, path: Path) -> None:
    if path.is_file():
        return
    print(f"Downloading {MIRROR}{name}", flush=True)
    partial = path.with_name(f".{name}.partial")
    with (
        urllib.request.urlopen(MIRROR + name, timeout=_TIMEOUT_SECONDS) as source,
        partial.open("wb") as target,
    ):
        shutil.copyfileobj(source, target)
    idx.read(partial)  # an error page must not become the data set
    partial.rename(path)
