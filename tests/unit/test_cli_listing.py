"""The table of jobs."""

from __future__ import annotations

from trainshed.cli.listing import rows
from trainshed.sdk.jobs import Summary


def test_names_are_never_cut() -> None:
    """However narrow the terminal, or if there is none: a name is read, copied and searched for."""
    name = "a-very-long-name-of-a-job-" * 3
    listed = [
        Summary("PyTorchJob", "default", name, "Running", {"Master": "1/1", "Worker": "2/4"}, 90.0, 95.0),
        Summary("TFJob", "other", "b", "Pending", {"Worker": "1"}, 99.0),
        Summary("TFJob", "other", "old", "Pending", {"Worker": "1"}, 100.0 - 10 * 86400),
    ]
    head, first, second, old = rows(listed, True, 100.0)
    assert head.split() == ["NAMESPACE", "KIND", "NAME", "STATE", "REPLICAS", "TOOK", "AGE"]
    assert first.split() == [
        *("default", "PyTorchJob", name, "Running", "Master", "1/1,", "Worker", "2/4", "5s", "10s")
    ]
    assert second.split() == ["other", "TFJob", "b", "Pending", "Worker", "1", "1s"]
    assert old.endswith("  10d")
    assert head.index("STATE") == first.index("Running") == second.index("Pending")
    assert rows(listed, False, 100.0)[0].startswith("KIND")
