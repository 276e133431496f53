"""The CustomResourceDefinitions of both APIs and of Volcano's queues, in the shape of theirs.

Names, fields, columns and subresources are those of scheduler-plugins v0.32 and Volcano v1.12; Volcano's PodGroups
have no status subresource. They stand in for the real ones, which replace them when they are applied.
"""

from __future__ import annotations

from typing import Any

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.podgroups import (
    COSCHEDULING_PODGROUPS,
    DEFAULT_QUEUE,
    VOLCANO_PODGROUPS,
    VOLCANO_QUEUES,
)
from trainshed.kube.meta.resources import Resource

_INT: Object = {"type": "integer", "format": "int32"}
_TEXT: Object = {"type": "string"}
_TIME: Object = {"type": "string", "format": "date-time"}
_QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)"
    r"|(\.[0-9]+))))?$"
)
_RESOURCES: Object = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": _QUANTITY,
        "x-kubernetes-int-or-string": True,
    },
}
_COUNTS = {
    "running": {**_INT, "description": "running is the number of pods that run."},
    "succeeded": {**_INT, "description": "succeeded is the number of pods that ended well."},
    "failed": {**_INT, "description": "failed is the number of pods that failed."},
}
_MIN_MEMBER = "minMember is the number of pods that must fit before any of them starts."
_MIN_RESOURCES = "minResources is what must be free before any of the pods starts."
_AGE = ("Age", "date", ".metadata.creationTimestamp")


def definitions() -> list[Object]:
    """Return the definitions. The caller owns them."""
    return [_coscheduling_podgroups(), _volcano_podgroups(), _volcano_queues()]


def default_queue() -> Object:
    """Return the queue of groups that name none, as Volcano makes it."""
    return {
        "apiVersion": VOLCANO_QUEUES.api_version,
        "kind": VOLCANO_QUEUES.kind,
        "metadata": {"name": DEFAULT_QUEUE},
        "spec": {"weight": 1},
    }


def _coscheduling_podgroups() -> Object:
    spec = {
        "minMember": {**_INT, "minimum": 1, "description": _MIN_MEMBER},
        "minResources": {**_RESOURCES, "description": _MIN_RESOURCES},
        "scheduleTimeoutSeconds": {
            **_INT,
            "description": "scheduleTimeoutSeconds is how long the group may wait, in seconds, before that is told.",
        },
    }
    status = {
        "phase": {**_TEXT, "description": "phase is the state of the group."},
        "occupiedBy": {**_TEXT, "description": "occupiedBy names the workload that the group belongs to."},
        **_COUNTS,
        "scheduleStartTime": {**_TIME, "description": "scheduleStartTime is when all pods were there."},
    }
    columns = [
        ("Phase", "string", ".status.phase"),
        ("MinMember", "integer", ".spec.minMember"),
        ("Running", "integer", ".status.running"),
        ("Succeeded", "integer", ".status.succeeded"),
        ("Failed", "integer", ".status.failed"),
        _AGE,
    ]
    made = _definition(COSCHEDULING_PODGROUPS, ["pg", "pgs"], spec, status, columns, subresource=True)
    # Groups below k8s.io must say where their API was approved.
    approval = {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"}
    made["metadata"]["annotations"] = approval
    return made


def _volcano_podgroups() -> Object:
    spec = {
        "minMember": {**_INT, "description": _MIN_MEMBER},
        "minResources": {**_RESOURCES, "description": _MIN_RESOURCES},
        "minTaskMember": {
            "type": "object",
            "additionalProperties": _INT,
            "description": "minTaskMember is the least number of pods by task. Not honoured here.",
        },
        "networkTopology": {
            "type": "object",
            "properties": {
                "highestTierAllowed": {"type": "integer", "default": 1},
                "mode": {"type": "string", "default": "hard", "enum": ["hard", "soft"]},
            },
            "description": "networkTopology limits how far pods may be apart. Not honoured here.",
        },
        "preemptable": {
            "type": "boolean",
            "description": "preemptable: its pods may be evicted. Here its priority alone decides.",
        },
        "priorityClassName": {
            **_TEXT,
            "description": "priorityClassName is the PriorityClass of the group. Default: the priority of its pods.",
        },
        "queue": {
            **_TEXT,
            "default": DEFAULT_QUEUE,
            "description": "queue is the queue that the group waits in.",
        },
    }
    condition = {
        "type": "object",
        "properties": {
            "type": _TEXT,
            "status": _TEXT,
            "reason": _TEXT,
            "message": _TEXT,
            "transitionID": _TEXT,
            "lastTransitionTime": _TIME,
        },
    }
    status = {
        "phase": {**_TEXT, "description": "phase is the state of the group."},
        "conditions": {"type": "array", "items": condition, "description": "conditions say why it waits."},
        **_COUNTS,
    }
    columns = [
        ("STATUS", "string", ".status.phase"),
        ("minMember", "integer", ".spec.minMember"),
        ("RUNNINGS", "integer", ".status.running"),
        ("AGE", "date", ".metadata.creationTimestamp"),
        ("QUEUE", "string", ".spec.queue", 1),
    ]
    return _definition(
        VOLCANO_PODGROUPS, ["pg", "podgroup-v1beta1"], spec, status, columns, subresource=False
    )


def _volcano_queues() -> Object:
    spec = {
        "priority": {**_INT, "description": "priority: groups of queues with a higher one go first."},
        "capability": {**_RESOURCES, "description": "capability is the most that pods of the queue may use."},
        "weight": {**_INT, "description": "weight is the queue's share. Not honoured here."},
        "reclaimable": {"type": "boolean", "description": "reclaimable: not honoured here."},
        "deserved": {**_RESOURCES, "description": "deserved is the queue's share. Not honoured here."},
        "parent": {**_TEXT, "description": "parent is the queue above. Not honoured here."},
        "type": {**_TEXT, "description": "type is the sort of the queue."},
        **{
            field: {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "description": f"{field}: not honoured here.",
            }
            for field in ("affinity", "guarantee")
        },
        "extendClusters": {
            "type": "array",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "description": "extendClusters: not honoured here.",
        },
    }
    status = {
        "state": {**_TEXT, "description": "state is Open or Closed: a closed queue lets no group in."},
        "allocated": {**_RESOURCES, "description": "allocated is what pods of the queue use."},
        **dict.fromkeys(("completed", "inqueue", "pending", "running", "unknown"), _INT),
        "reservation": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    columns = [("PARENT", "string", ".spec.parent")]
    return _definition(VOLCANO_QUEUES, ["q", "queue-v1beta1"], spec, status, columns, subresource=True)


def _definition(
    resource: Resource,
    short_names: list[str],
    spec: Object,
    status: Object,
    columns: list[tuple[Any, ...]],
    *,
    subresource: bool,
) -> Object:
    singular = resource.kind.lower()
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": f"{resource.kind} of {resource.group}.",
                "properties": {
                    "apiVersion": _TEXT,
                    "kind": _TEXT,
                    "metadata": {"type": "object"},
                    "spec": {
                        "type": "object",
                        "properties": spec,
                        "description": "spec is what is asked for.",
                    },
                    "status": {
                        "type": "object",
                        "properties": status,
                        "description": "status is what is so.",
                    },
                },
            }
        },
        "additionalPrinterColumns": [_column(*column) for column in columns],
        "subresources": {"status": {}} if subresource else {},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.group_resource},
        "spec": {
            "group": resource.group,
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": singular,
                "shortNames": short_names,
            },
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [version],
        },
    }


def _column(name: str, type_: str, path: str, priority: int = 0) -> Object:
    column: Object = {"name": name, "type": type_, "jsonPath": path}
    return {**column, "priority": priority} if priority else column
