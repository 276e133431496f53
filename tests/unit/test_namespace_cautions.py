"""A namespace that asks for a Pod Security standard is told that none is applied."""

from __future__ import annotations

import pytest

from trainshed.kube.builtin.core.namespace import KIND


@pytest.mark.parametrize(
    ("label", "value", "told"),
    [
        ("pod-security.kubernetes.io/enforce", "restricted", True),
        ("pod-security.kubernetes.io/warn", "baseline", True),
        ("pod-security.kubernetes.io/enforce", "privileged", False),
        ("pod-security.kubernetes.io/enforce-version", "latest", False),
        ("team", "restricted", False),
    ],
)
def test_what_is_said(label: str, value: str, told: bool) -> None:
    assert KIND.cautions is not None
    said = list(KIND.cautions({"metadata": {"name": "a", "labels": {label: value}}}))
    assert said == (
        [f"metadata.labels[{label}]: this cluster applies no Pod Security standard"] if told else []
    )
