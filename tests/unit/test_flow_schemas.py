"""What FlowSchemas say of the priority level that they name."""

from __future__ import annotations

from trainshed.cluster.controllers.flowschemas import dangling
from trainshed.kube.meta.objects import Object

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def schema(*conditions: Object) -> Object:
    spec = {"priorityLevelConfiguration": {"name": "low"}}
    return {"metadata": {"name": "a"}, "spec": spec, "status": {"conditions": list(conditions)}}


def test_a_schema_without_its_level_is_told() -> None:
    found = dangling(schema(), exists=False, now=NOW)
    text = 'This FlowSchema references the PriorityLevelConfiguration object named "low" but there is no such object'
    assert found == {
        "type": "Dangling",
        "status": "True",
        "reason": "NotFound",
        "message": text,
        "lastTransitionTime": NOW,
    }


def test_what_is_told_is_not_told_again_until_it_changes() -> None:
    told = dangling(schema(), exists=True, now=NOW)
    assert told is not None
    assert told["status"] == "False"
    assert dangling(schema(told), exists=True, now=LATER) is None
    changed = dangling(schema(told), exists=False, now=LATER)
    assert changed is not None
    assert (changed["status"], changed["lastTransitionTime"]) == ("True", LATER)
