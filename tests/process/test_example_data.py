"""The example's data: files in the published formats, and a stand-in that is the same everywhere."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `torch` is not installed; ./check installs it")

SOURCE = Path(__file__).parent.parent.parent / "examples/fashion-mnist/src"


@pytest.fixture(autouse=True)
def example_on_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(SOURCE))
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "fashion_mnist"]:
        del sys.modules[name]


def test_idx_round_trip_and_reproducible_bytes(tmp_path: Path) -> None:
    import numpy as np
    from fashion_mnist import idx

    values = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    idx.write(tmp_path / "a.gz", values)
    idx.write(tmp_path / "b.gz", values)
    assert (idx.read(tmp_path / "a.gz") == values).all()
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


@pytest.mark.parametrize("content", [b"<html>not found</html>", b"", b"\0\0\x08\x01\0\0\0\x09ab"])
def test_what_is_no_idx_file_is_refused(tmp_path: Path, content: bytes) -> None:
    import gzip

    from fashion_mnist import idx

    (tmp_path / "x.gz").write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match=r"x\.gz"):
        idx.read(tmp_path / "x.gz")


def test_the_stand_in_is_deterministic_balanced_and_of_the_right_shape() -> None:
    from fashion_mnist import standin

    images, labels = standin.make("train", 1000)
    assert (images.shape, images.dtype, labels.dtype) == ((1000, 28, 28), "uint8", "uint8")
    assert [int((labels == c).sum()) for c in range(10)] == [100] * 10
    again, _ = standin.make("train", 1000)
    assert hashlib.sha256(images.tobytes()).digest() == hashlib.sha256(again.tobytes()).digest()
    other, _ = standin.make("test", 1000)
    assert (images != other).any()


def test_arrow_round_trip(tmp_path: Path) -> None:
    from fashion_mnist import arrow, standin

    splits = {"train": standin.make("train", 30), "test": standin.make("test", 20)}
    arrow.write(tmp_path / "data", splits)
    assert arrow.is_dataset(tmp_path / "data")
    for split, (images, labels) in splits.items():
        read_images, read_labels = arrow.read(tmp_path / "data", split)
        assert (read_images == images).all()
        assert (read_labels == labels).all()


def test_prepare_makes_the_stand_in_once_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fashion_mnist import data, standin

    made = []
    monkeypatch.setattr(standin, "COUNTS", {"train": 20, "test": 10})
    monkeypatch.setattr(data, "write_standin", _counting(made, data.write_standin, {"train": 20, "test": 10}))
    first = data.prepare(tmp_path / "data", download=False)
    second = data.prepare(tmp_path / "data", download=False)
    assert first == second
    assert "stand-in: synthetic" in first
    assert len(made) == 1
    assert len(data.load(tmp_path / "data", "train")) == 20


def _counting(made: list[Path], write, counts):  # type: ignore[no-untyped-def]
    def write_once(root: Path) -> None:
        made.append(root)
        write(root, counts)

    return write_once


def test_a_checkpoint_is_resumed_from(tmp_path: Path) -> None:
    import torch
    from fashion_mnist import checkpoint
    from fashion_mnist.model import Net

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    assert checkpoint.load(tmp_path / "none.pt", net, optimizer) == 0
    checkpoint.save(tmp_path / "models" / "a.pt", net, optimizer, epoch=3)
    other = Net()
    assert (
        checkpoint.load(tmp_path / "models" / "a.pt", other, torch.optim.SGD(other.parameters(), lr=0.1)) == 3
    )
    assert all((a == b).all() for a, b in zip(net.parameters(), other.parameters(), strict=True))
    assert [p.name for p in (tmp_path / "models").iterdir()] == ["a.pt"]
