"""IDX files, the form in which MNIST and Fashion-MNIST are published.

Format (http://yann.lecun.com/exdb/mnist/): magic 00 00 08 <dimensions>, each dimension as a big-endian uint32,
then the bytes. Files are gzipped.
"""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

Images = npt.NDArray[np.uint8]
"""Grey images, shape (n, 28, 28)."""
Labels = npt.NDArray[np.uint8]
"""Class of each image, 0 to 9, shape (n,)."""

FILES = {
    "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}


def read(path: Path) -> npt.NDArray[np.uint8]:
    """Return the array in a gzipped IDX file of unsigned bytes.

    Raises:
        ValueError: not such a file, or cut short.
    """
    with gzip.open(path, "rb") as file:
        data = file.read()
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an IDX file of unsigned bytes")
    dimensions = data[3]
    header = 4 + 4 * dimensions
    shape = struct.unpack(f">{dimensions}I", data[4:header])
    values = np.frombuffer(data, dtype=np.uint8, offset=header)
    if values.size != int(np.prod(shape)):
        raise ValueError(f"{path} holds {values.size} bytes, its header says {shape}")
    return values.reshape(shape)


def write(path: Path, values: npt.NDArray[np.uint8]) -> None:
    """Write the array as a gzipped IDX file; the same array gives the same bytes."""
    header = b"\0\0\x08" + bytes([values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as file:
        file.write(header + values.tobytes())
