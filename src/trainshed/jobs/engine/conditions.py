"""The algebra of job conditions: what setting one does to the others.

The list is kept in the order of the last change, which `kubectl get` shows as the state of the job.
Facts: the condition rules of the Kubeflow training operator v1.

    Failed        ends everything: nothing is set after it
    Running       replaces Restarting, and Restarting replaces Running
    Succeeded     turns Running to False, as Failed does
"""

from __future__ import annotations

from trainshed.jobs.engine import constants as c
from trainshed.kube.meta.objects import Object

_REPLACES = {c.RUNNING: c.RESTARTING, c.RESTARTING: c.RUNNING}


def find(conditions: list[Object], type_: str) -> Object | None:
    """Return the condition of this type, if there is one."""
    return next((condition for condition in conditions if condition.get("type") == type_), None)


def is_true(conditions: list[Object], type_: str) -> bool:
    """Return whether the condition of this type holds."""
    condition = find(conditions, type_)
    return condition is not None and condition.get("status") == "True"


def set_condition(
    conditions: list[Object], type_: str, status: str, reason: str, message: str, now: str
) -> list[Object]:
    """Return the conditions after setting one; the list itself when there is nothing to change.

    `now` is wire time. `conditions` is not modified.
    """
    existing = find(conditions, type_)
    if is_true(conditions, c.FAILED):
        return conditions
    if existing is not None and existing.get("status") == status and existing.get("reason") == reason:
        return conditions
    out = [dict(old) for old in conditions if old.get("type") not in (type_, _REPLACES.get(type_))]
    if type_ in (c.SUCCEEDED, c.FAILED):
        for old in out:
            if old.get("type") == c.RUNNING:
                old["status"] = "False"  # reason, message and times still tell of the run that ended
    same_status = existing is not None and existing.get("status") == status
    since = existing.get("lastTransitionTime") if existing is not None and same_status else None
    out.append(
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "lastUpdateTime": now,
            "lastTransitionTime": since or now,
        }
    )
    return out
