"""What a job leaves behind: which files count as its checkpoints, and how a failure is told."""

from __future__ import annotations

import os
from pathlib import Path

from trainshed.sdk.summary import Failure, checkpoints


def write(root: Path, *names: str) -> None:
    """Write files, each a second newer than the one before."""
    for age, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
        os.utime(root / name, (1_000 + age, 1_000 + age))


def found(root: Path, since: float = 0) -> list[str]:
    return [str(file.relative_to(root)) for file in checkpoints(root, since)]


def test_the_newest_of_each_directory_comes_first_and_data_is_left_out(tmp_path: Path) -> None:
    steps = [
        f"out/checkpoint-{n}/{name}"
        for n in (16, 32)
        for name in ("model.safetensors", "optimizer.pt", "rng_state.pth")
    ]
    write(tmp_path, "data/0.pt", *steps, "res.pt", "old.pt", "MNIST/raw/a.npz")
    assert found(tmp_path) == [
        "old.pt",
        "out/checkpoint-32/model.safetensors",
        "out/checkpoint-16/model.safetensors",
    ]
    assert found(tmp_path, since=1_005) == ["old.pt"]


def test_a_directory_of_distributed_checkpoint_stands_for_itself(tmp_path: Path) -> None:
    write(tmp_path, "step-1/.metadata", "step-1/__0_0.distcp", "step-1/extra.pt")
    assert found(tmp_path) == ["step-1"]


def test_a_container_is_named_where_it_is_not_the_only_one() -> None:
    assert Failure("m", "worker-0", "p", "Error", 9, container="fetch").lines()[0] == (
        "worker-0 failed first: Error, exit code 9 (pod p, container fetch)"
    )
