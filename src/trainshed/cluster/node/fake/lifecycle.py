"""What a pod does, as data: the stages that it goes through, and which pods a course of stages is for. Pure.

- annotations: {outcome: fails}
  stages:
    - {after: 0.1, phase: Running, ready: true}
    - {after: 2, phase: Failed, exit_code: 1, message: out of memory}
- stages:
    - {phase: Running, ready: true}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from trainshed.kube.meta.objects import Object, labels_of, metadata_of, objects, spec_of, texts
from trainshed.kube.meta.times import format_time


class Stage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One state of a pod. It begins `after` seconds in the stage before it, or after the pod was bound.

    `exit_code` is how the containers ended, 0 or 1 by the phase when it does not say; `restarts` is how often they
    were started again; `reason` and `message` say why they wait or have ended.
    """

    after: float = 0.0
    phase: str = "Running"
    ready: bool = False
    exit_code: int | None = None
    restarts: int = 0
    reason: str = ""
    message: str = ""


class Lifecycle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A course of stages, for pods that have all the `labels` and `annotations`; with neither, for every pod."""

    stages: tuple[Stage, ...]
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}

    def is_for(self, pod: Object) -> bool:
        """Return whether the pod has the labels and annotations."""
        annotations = texts(metadata_of(pod), "annotations")
        return self.labels.items() <= labels_of(pod).items() and (
            self.annotations.items() <= annotations.items()
        )


RUNS = Lifecycle(stages=(Stage(phase="Running", ready=True),))
"""Running and Ready at once, for ever."""
SUCCEEDS = Lifecycle(stages=(*RUNS.stages, Stage(after=0.1, phase="Succeeded")))
"""Running at once, Succeeded a tenth of a second later."""


def read_lifecycles(text: str) -> tuple[Lifecycle, ...]:
    """Return the lifecycles of a YAML or JSON list.

    Raises:
        msgspec.ValidationError: names the field that is wrong.
    """
    return msgspec.yaml.decode(text, type=tuple[Lifecycle, ...])


def lifecycle_of(pod: Object, lifecycles: Sequence[Lifecycle]) -> Lifecycle | None:
    """Return the first lifecycle that is for the pod."""
    return next((each for each in lifecycles if each.is_for(pod)), None)


def status_at(pod: Object, stage: Stage, *, started_at: float, now: float, address: str) -> Object:
    """Return the status of the pod in the stage; times are seconds since the epoch."""
    started, stamp = format_time(started_at), format_time(now)
    truth = {
        "PodScheduled": True,
        "Initialized": stage.phase != "Pending",
        "ContainersReady": stage.ready,
        "Ready": stage.ready,
    }
    status: Object = {
        "phase": stage.phase,
        "startTime": started,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [
            {"type": type_, "status": str(holds), "lastTransitionTime": stamp}
            for type_, holds in truth.items()
        ],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container.get("image", ""),
                "imageID": "",
                "ready": stage.ready,
                "started": stage.phase == "Running",
                "restartCount": stage.restarts,
                "state": _state(stage, started, stamp),
            }
            for container in objects(spec_of(pod), "containers")
        ],
    }
    return status


def _state(stage: Stage, started: str, stamp: str) -> Object:
    why = {"reason": stage.reason} | ({"message": stage.message} if stage.message else {})
    if stage.phase == "Pending":
        return {"waiting": {**why, "reason": stage.reason or "ContainerCreating"}}
    if stage.phase == "Running":
        return {"running": {"startedAt": started}}
    failed = stage.phase == "Failed"
    code = stage.exit_code if stage.exit_code is not None else int(failed)
    reason = stage.reason or ("Error" if code else "Completed")
    return {
        "terminated": {
            **why,
            "reason": reason,
            "exitCode": code,
            "startedAt": started,
            "finishedAt": stamp,
        }
    }
