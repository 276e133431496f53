"""What of a pod is there before its containers."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.cluster.node.pod.starter import Prepared, waits_for_volumes
from trainshed.cluster.node.references import References


@pytest.mark.parametrize(
    ("source", "waits"),
    [
        ({"emptyDir": {}}, False),
        ({"emptyDir": {"medium": "Memory"}}, True),
        ({"persistentVolumeClaim": {"claimName": "data"}}, True),
        ({"configMap": {"name": "words"}}, False),
    ],
)
def test_a_sandbox_waits_for_volumes_in_memory_and_of_claims(source: dict[str, Any], waits: bool) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"volumes": [{"name": "v", **source}], "containers": []}}
    assert waits_for_volumes(pod) is waits


def test_what_is_prepared_stays_as_it_is() -> None:
    prepared = Prepared(References({}), {})
    with pytest.raises(AttributeError):
        prepared.volumes = {}  # type: ignore[misc]
