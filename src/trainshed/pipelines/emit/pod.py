"""The container of a step and its volumes: the same in a task and in a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainshed.pipelines.emit import shared
from trainshed.pipelines.emit.environment import environment
from trainshed.pipelines.emit.options import DEFAULT_IMAGE, Options
from trainshed.pipelines.ir import Pipeline, Step

PROGRAM_ANNOTATION = "trainshed.dev/program"
"""Written by the emitters, read through a downwardAPI volume by the step runner."""
PROGRAM_PATH = "/trainshed/program"
_PROGRAM_FILE = "program.json"
_OWN = "notebook-directory"


def arguments(
    pipeline: Pipeline,
    step: Step,
    options: Options,
    exposed: Sequence[str],
    *,
    data: str,
    run: str,
    attempt: str,
) -> list[str]:
    """Return the runner's arguments. Files that steps write beside their data stay in `DATA/files`."""
    made = ["--program", f"{PROGRAM_PATH}/{_PROGRAM_FILE}", "--data", f"{data}/steps", "--run-name", run]
    made += ["--attempt", attempt]
    if working_dir(pipeline) is None:
        # Not as the container's directory: modules beside the notebook are for its cells, not for the runner.
        made += ["--work", _node_directory(pipeline, options) or f"{data}/files"]
    directory = shared.path(pipeline)
    if directory is not None:
        made += ["--shared", directory, "--shared-first", f"{data}/{shared.FIRST}"]
    if step.settings.report:
        made += ["--report", f"{data}/reports/{step.name}.html"]
    return [*made, *(f"--param={name}=$(params.{name})" for name in exposed)]


def working_dir(pipeline: Pipeline) -> str | None:
    """Return the notebook's own directory where a volume of the pipeline has it, else None."""
    wanted = pipeline.settings.working_dir
    return wanted if wanted is not None and _mounted(pipeline, wanted) else None


def _node_directory(pipeline: Pipeline, options: Options) -> str | None:
    wanted = options.directory
    return None if wanted in (None, "/") or _mounted(pipeline, str(wanted)) else wanted


def _mounted(pipeline: Pipeline, directory: str) -> bool:
    """Return whether the directory is in one of the pipeline's volumes."""
    paths = [volume.mount_path.rstrip("/") for volume in pipeline.settings.volumes]
    return any(directory.rstrip("/") == path or directory.startswith(f"{path}/") for path in paths)


def container(
    pipeline: Pipeline, step: Step, options: Options, name: str, command: Sequence[str], args: Sequence[str]
) -> dict[str, Any]:
    """Return the container that runs the step."""
    settings = step.settings
    env: list[dict[str, Any]] = [
        {"name": v.env, "value": v.mount_path} for v in pipeline.settings.volumes if v.env is not None
    ]
    env += [
        {"name": key, "value": value.replace("$(", "$$(")}
        for key, value in sorted(environment(pipeline, step).items())
    ]
    env += [
        {"name": s.name, "valueFrom": {"secretKeyRef": {"name": s.secret, "key": s.key}}}
        for s in settings.secrets
    ]
    if step.distribution is not None:
        env.append({"name": "NUM_WORKERS", "value": str(step.distribution.workers)})
    resources = {
        kind: dict(sorted(values.items()))
        for kind, values in (("limits", settings.limits), ("requests", settings.requests))
        if values
    }
    made: dict[str, Any] = {
        "name": name,
        "image": settings.image or options.image or pipeline.settings.image or DEFAULT_IMAGE,
        "command": list(command),
        "args": list(args),
    }
    if env:
        made["env"] = env
    if resources:
        made["resources"] = resources
    directory = working_dir(pipeline)
    if directory is not None:
        made["workingDir"] = directory
    own = _node_directory(pipeline, options)
    made["volumeMounts"] = [
        {"name": "program", "mountPath": PROGRAM_PATH, "readOnly": True},
        *([{"name": _OWN, "mountPath": own}] if own is not None else ()),
        *({"name": v.name, "mountPath": v.mount_path} for v in pipeline.settings.volumes if v.size is None),
    ]
    return made


def placement(step: Step) -> dict[str, Any]:
    """Return the fields of the step's pod that say where it may run and with what its image is pulled."""
    made: dict[str, Any] = {}
    if step.settings.tolerations:
        made["tolerations"] = [
            {
                "key": t.key,
                **({"operator": "Equal", "value": t.value} if t.value else {"operator": "Exists"}),
                **({"effect": t.effect} if t.effect else {}),
            }
            for t in step.settings.tolerations
        ]
    if step.settings.pull_secrets:
        made["imagePullSecrets"] = [{"name": name} for name in step.settings.pull_secrets]
    return made


def pod_volumes(pipeline: Pipeline, options: Options) -> list[dict[str, Any]]:
    """Return the volumes of the program, of the notebook's directory on the node, and of existing claims."""
    own = _node_directory(pipeline, options)
    field = f"metadata.annotations['{PROGRAM_ANNOTATION}']"
    return [
        {
            "name": "program",
            "downwardAPI": {"items": [{"path": _PROGRAM_FILE, "fieldRef": {"fieldPath": field}}]},
        },
        *([{"name": _OWN, "hostPath": {"path": own, "type": "Directory"}}] if own is not None else ()),
        *(
            {"name": v.name, "persistentVolumeClaim": {"claimName": v.name}}
            for v in pipeline.settings.volumes
            if v.size is None
        ),
    ]
