"""The embedded cluster: the same Tekton objects, with the interpreter that has Trainshed."""

from __future__ import annotations

from trainshed.kube.meta.objects import Object
from trainshed.pipelines.emit import tekton
from trainshed.pipelines.emit.options import Options
from trainshed.pipelines.emit.pod import PROGRAM_PATH
from trainshed.pipelines.ir import Pipeline

AT_ONCE_ANNOTATION = "trainshed.dev/tasks-at-once"
WAITS_ANNOTATION = "trainshed.dev/waits-for-ready"
READY_ANNOTATION = "tekton.dev/ready"
_READY_FILE = "ready"
DEFAULT_AT_ONCE = 4
"""Steps that run at the same time unless told otherwise."""


def emit(pipeline: Pipeline, options: Options) -> list[Object]:
    """Return the objects that run the pipeline once here."""
    made = tekton.emit(pipeline, options)
    run = made[-1]
    # One machine: each step is a kernel with its own memory. No limit of time: training takes as long as it takes.
    annotations = run["metadata"].setdefault("annotations", {})
    annotations[AT_ONCE_ANNOTATION] = str(options.at_once or DEFAULT_AT_ONCE)
    run["spec"].setdefault("timeouts", {"pipeline": "0"})
    if options.prepare:
        for task in (run["spec"].get("pipelineSpec") or made[0]["spec"])["tasks"]:
            _wait_for_turn(task["taskSpec"])
    return made


def _wait_for_turn(task: Object) -> None:
    """Let the runner import and start its kernel ahead, and begin once its pod is told so.

    Steps that ask for resources begin with their pods: they would keep them from others while they wait. So do workers,
    which meet before they do anything else.
    """
    steps = task.get("steps", ())
    if len(steps) != 1 or "computeResources" in steps[0] or "--worker" in steps[0]["args"]:
        return
    task["metadata"]["annotations"][WAITS_ANNOTATION] = "true"
    program = next(v for v in task["volumes"] if v["name"] == "program")
    field = f"metadata.annotations['{READY_ANNOTATION}']"
    program["downwardAPI"]["items"].append({"path": _READY_FILE, "fieldRef": {"fieldPath": field}})
    steps[0]["args"] += ["--ready", f"{PROGRAM_PATH}/{_READY_FILE}"]
