"""What stands below the log lines, as text: for few and many replicas, in narrow and low windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from trainshed.cli.panel import panel
from trainshed.sdk.followview import Snapshot
from trainshed.sdk.progress import Progress
from trainshed.sdk.state import Replica
from trainshed.testing.builders import make_job

WHY = "0/1 nodes are available: 1 Insufficient memory. preemption: 0/1 nodes are available"
TOLD = Progress(
    epochs=4,
    first_epoch=1,
    epoch=1,
    seen=3,
    total=10,
    scope="epoch",
    losses=(3.0, 2.0, 1.0),
    accuracy=0.5,
    first_step_at=0.0,
    last_step_at=60.0,
)


def snapshot(
    workers: int, pending: tuple[int, ...] = (), progress: Progress = TOLD, name: str = "mnist"
) -> Snapshot:
    job = make_job(name, namespace="ns")
    job["status"] = {"conditions": [{"type": "Running", "status": "True"}]}
    replicas = [Replica("master-0", f"{name}-master-0", "Running", restarts=1)]
    for n in range(workers):
        state, why = ("Pending", WHY) if n in pending else ("Running", "")
        replicas.append(Replica(f"worker-{n}", f"{name}-worker-{n}", state, why))
    return Snapshot(job, replicas, progress, 0.0)


def shown(
    *snapshots: Snapshot, width: int, height: int = 24, frames: Mapping[str, str] | None = None
) -> list[str]:
    now = max(each.started_at for each in snapshots) + 100.0
    rows = panel(list(snapshots), frames or {}, now, width, height)
    assert all(row.cell_len <= width for row in rows) and len(rows) < height
    return [row.plain for row in rows]


def test_a_few_replicas_have_a_row_each() -> None:
    assert shown(snapshot(2), width=80) == [
        "─" * 80,
        "PyTorchJob ns/mnist  Running  1m40s",
        "master-0  Running  1 restart",
        "worker-0  Running",
        "worker-1  Running",
        "epoch 1/4 ██░░░░░░░░░░░░░░░░░░░░░░░░░░░░   8%  ETA 11m40s",
        "loss 1.0000 █▅▁  accuracy 0.5000",
    ]


@pytest.mark.parametrize(("how", "rows"), [("Succeeded", 4), ("Failed", 5)])
def test_a_job_that_is_over_has_no_time_left_and_its_clock_stands(how: str, rows: int) -> None:
    over = snapshot(1)
    over.started_at = 1767225600.0
    over.job["status"] = {
        "conditions": [{"type": how, "status": "True"}],
        "completionTime": "2026-01-01T00:01:00Z",
    }
    head, *below = shown(over, width=80)[1:]
    assert head == f"PyTorchJob ns/mnist  {how}  1m00s"
    assert len(below) == rows - 1 and not [row for row in below if "ETA" in row or "left" in row]
    assert any("%" in row for row in below) is (how == "Failed"), "how far it came"


def test_sixteen_replicas_on_sixty_columns() -> None:
    assert shown(snapshot(15, pending=(3, 4)), width=60) == [
        "─" * 60,
        "PyTorchJob ns/mnist  Running  1m40s",
        "master-0           Running  1 restart",
        "worker-0..2,5..14  Running",
        "worker-3..4        Pending  0/1 nodes are available: 1 Insu…",
        "epoch 1/4 ██░░░░░░░░░░░░░░░░░░   8%  ETA 11m40s",
        "loss 1.0000 █▅▁  accuracy 0.5000",
    ]


def test_sixty_four_replicas_of_many_ranges_and_a_low_window() -> None:
    crowd = snapshot(63, pending=tuple(range(0, 63, 9)))
    assert shown(crowd, width=60)[2:5] == [
        "master-0    Running  1 restart",
        "worker ×7   Pending  0/1 nodes are available: 1 Insufficien…",
        "worker ×56  Running",
    ]
    assert shown(crowd, width=60, height=12) == [
        "─" * 60,
        "PyTorchJob ns/mnist  Running  1m40s",
        "64 replicas: 57 Running, 7 Pending",
        "epoch 1/4 ██░░░░░░░░░░░░░░░░░░   8%  ETA 11m40s",
        "loss 1.0000 █▅▁  accuracy 0.5000",
    ]


def test_several_jobs_share_the_rows() -> None:
    rows = shown(*(snapshot(1, name=f"j{n}") for n in range(3)), width=60)
    assert [row.split()[1] for row in rows if row.startswith("PyTorchJob")] == ["ns/j0", "ns/j1", "ns/j2"]
    many = shown(*(snapshot(1, name=f"j{n}") for n in range(40)), width=60)
    assert many[-1] == "… and 30 more jobs"


def test_bars_have_rows_above_and_control_characters_none() -> None:
    frames = {f"worker-{n}": f" {n}%|█\x1b[31m| {n}/100" for n in range(12)}
    rows = shown(snapshot(1), width=60, frames=frames)
    assert rows[:5] == [
        *(f"[worker-{n}]  {n}%|█ [31m| {n}/100" for n in (0, 1, 2, 3)),
        "… and 8 more bars",
    ]


@pytest.mark.parametrize(
    ("told", "row"),
    [
        (
            {"epoch": 2, "seen": 45, "total": 100, "scope": "epoch"},
            "epoch 2 45/100 █████████░░░░░░░░░░░  45% of these steps",
        ),
        (
            {"seen": 45, "total": 100, "seconds_left": 30.0, "told_at": 90.0},
            "45/100 █████████░░░░░░░░░░░  45% of these steps, 20s left",
        ),
        ({"seen": 120}, "step 120"),
        ({"epoch": 3}, "epoch 3"),
        ({"epochs": 3, "first_epoch": 1, "epoch": 1}, "epoch 1/3 ░░░░░░░░░░░░░░░░░░░░   0%"),
    ],
)
def test_what_is_not_known_is_not_shown(told: dict[str, Any], row: str) -> None:
    assert shown(snapshot(0, progress=Progress(**told)), width=60)[-1] == row


@pytest.mark.parametrize("width", [1, 5, 20, 200])
@pytest.mark.parametrize("height", [2, 3, 8, 60])
def test_every_window_is_kept_to(width: int, height: int) -> None:
    shown(
        snapshot(63, pending=(1, 5, 9, 20)), snapshot(2), width=width, height=height, frames={"a": "%|" * 99}
    )
