"""Layers that a pod stands on, noted by containers that start at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trainshed.cluster.images.store import notes


def test_containers_that_start_at_once_note_all_layers(tmp_path: Path) -> None:
    layers = [tmp_path / f"layer-{number}" for number in range(200)]
    with ThreadPoolExecutor(8) as threads:
        for one in [threads.submit(notes.note, tmp_path / "pod", [layer]) for layer in layers]:
            one.result()
    assert notes.noted(tmp_path / "pod") == sorted(layer.name for layer in layers)
