"""What is generated and committed is what the code says; pages of the docs are in `test_docs.py`."""

from __future__ import annotations

from trainshed.operator import manifests


def test_committed_manifests_are_up_to_date() -> None:
    assert manifests.differences() == [], "run `python -m trainshed.operator.manifests`"
