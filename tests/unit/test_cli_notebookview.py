"""What a run says where there is no terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from trainshed.cli.notebookview import PlainRun
from trainshed.sdk.pipelineruns.steps import StepState


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        ("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", True),
        ("0/1 nodes are available: 1 Insufficient memory.", False),
    ],
)
def test_a_step_that_waits_says_why_once_and_what_helps(
    reason: str, hint: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 10.0
    monkeypatch.setattr("trainshed.cli.notebookview.time.monotonic", lambda: now)
    err = io.StringIO()
    view = PlainRun(None, Console(file=err, width=200))
    for _ in range(4):
        view.update([StepState("train", "pending", detail=reason)])
        now += 1.0
    wanted = f"» train waits: {reason}\n"
    assert err.getvalue() == wanted + ("  --cpu runs it without\n" if hint else "")
