"""A Python script as a distributed job, without YAML. Pure but for the paths, which the caller has resolved."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from trainshed.api.kind import Kind, Program
from trainshed.api.registry import KINDS
from trainshed.kube.meta.objects import Object
from trainshed.sdk.errors import UserError

IMAGE = "python:3"
"""Stands in manifests for this machine's own root, whose `python3` is that of the environment of `trainshed`."""


GRACE_SECONDS = 2
"""How long a script may go on that shall end: Python as the first process of a pod does not hear SIGTERM."""


SCRIPTED = tuple(kind for kind in KINDS.values() if kind.runs_programs)
"""The kinds that run a script, the default first."""


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """A script to run.

    Attributes:
        path: absolute path of the script.
        directory: absolute path of the directory in which it runs.
        arguments: what follows it on the command line.
        workers: how many pods train.
        processes: how many processes each pod starts, by torchrun; None for one, started as it is.
        kind: kind of the job, or the start of it; empty for the default.
    """

    path: Path
    directory: Path
    arguments: tuple[str, ...] = ()
    workers: int = 1
    processes: int | None = None
    kind: str = ""


def is_script(path: str) -> bool:
    """Return whether the path is a Python script rather than a manifest."""
    return path.endswith(".py")


def job_of(script: Script) -> Object:
    """Return the job that runs the script.

    Raises:
        UserError: the kind runs no scripts, or torchrun is asked of another kind than PyTorchJob.
    """
    kind = _kind(script.kind)
    if script.processes is not None and not kind.starts_ranks:
        able = ", ".join(each.name for each in SCRIPTED if each.starts_ranks)
        raise UserError(f"--nproc is for {able}, whose pods run torchrun, not for {kind.name}")
    program = Program(
        command=tuple(_command(script)),
        pods=script.workers,
        processes=script.processes,
        template=lambda pods: {"spec": _pod(script, pods.container, pods.command)},
    )
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": _name(script.path)},
        "spec": kind.running(program),
    }


def _kind(wanted: str) -> Kind:
    """Return the kind that is meant, by its name in any case, without `Job`, or by its framework."""
    for kind in SCRIPTED:
        if wanted.lower() in ("", kind.singular, kind.singular.removesuffix("job"), kind.framework):
            return kind
    raise UserError(
        f"--kind {wanted}: no kind that runs a script", "kinds: " + ", ".join(k.name for k in SCRIPTED)
    )


def _command(script: Script) -> list[str]:
    if script.processes is not None:
        # torchrun reads nodes, rank and rendezvous from PET_*, which the operator sets.
        return ["python3", "-m", "torch.distributed.run", str(script.path), *script.arguments]
    return ["python3", "-u", str(script.path), *script.arguments]


def _pod(script: Script, container: str, command: Sequence[str]) -> Object:
    folders = list(dict.fromkeys((script.path.parent, script.directory)))
    if len(folders) == 2 and folders[0].is_relative_to(folders[1]):
        folders = folders[1:]
    volumes = [(f"folder-{number}", str(folder)) for number, folder in enumerate(folders)]
    return {
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "containers": [
            {
                "name": container,
                "image": IMAGE,
                "command": list(command),
                "workingDir": str(script.directory),
                "volumeMounts": [{"name": name, "mountPath": path} for name, path in volumes],
            }
        ],
        "volumes": [
            {"name": name, "hostPath": {"path": path, "type": "Directory"}} for name, path in volumes
        ],
    }


def _name(path: Path) -> str:
    """Return a name for the job: that of the file, as DNS labels are written."""
    name = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")[:40].rstrip("-")
    return name if name[:1].isalpha() else f"run-{name}".rstrip("-")
