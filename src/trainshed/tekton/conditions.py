"""The one condition of every run: `Succeeded`, which is Unknown until the run is over."""

from __future__ import annotations

from typing import Literal

from trainshed.kube.meta.objects import Object, condition, objects
from trainshed.kube.meta.times import format_time

State = Literal["True", "False", "Unknown"]
SUCCEEDED = "Succeeded"


def state(run: Object) -> State:
    """Return the status of the run's condition; Unknown where there is none."""
    found = (condition(run, SUCCEEDED) or {}).get("status")
    return found if found in ("True", "False") else "Unknown"


def reason(run: Object) -> str:
    """Return why the run is in its state, empty when nothing says."""
    return str((condition(run, SUCCEEDED) or {}).get("reason") or "")


def is_done(run: Object) -> bool:
    """Return whether the run is over."""
    return state(run) != "Unknown"


def mark(status: Object, value: State, reason: str, message: str, now: float) -> bool:
    """Set the condition, in place; return whether status or reason changed.

    The time of a transition is that of a change of any of it, as knative's conditions have it.
    """
    before = next((c for c in objects(status, "conditions") if c.get("type") == SUCCEEDED), {})
    wanted = {"type": SUCCEEDED, "status": value, "reason": reason, "message": message}
    if all(before.get(key) == wanted[key] for key in wanted):
        return False
    status["conditions"] = [{**wanted, "lastTransitionTime": format_time(now)}]
    return (before.get("status"), before.get("reason")) != (value, reason)


class Refused(Exception):
    """A run cannot start; `reason` goes into its condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
