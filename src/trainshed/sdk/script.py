"""A Python script as a distributed job, without YAML. Pure but for the paths, which the caller has resolved."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from trainshed.api.registry import KINDS
from trainshed.api.replicated import JobKind
from trainshed.kube.meta.objects import Object
from trainshed.sdk.errors import UserError
from trainshed.sdk.offline import crd_schema as schema

IMAGE = "python:3"
"""Stands in manifests for this machine's own root, whose `python3` is that of the environment of `trainshed`."""


GRACE_SECONDS = 2
"""How long a script may go on that shall end: Python as the first process of a pod does not hear SIGTERM."""


SCRIPTED = tuple(kind for kind in KINDS.values() if isinstance(kind, JobKind) and not kind.deletion_warnings)
"""The kinds that run a script, the default first. Those that are deprecated run none."""


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
    spec: Object = {}
    if script.processes is not None:
        if not _runs_torchrun(kind):
            able = ", ".join(each.name for each in SCRIPTED if _runs_torchrun(each))
            raise UserError(f"--nproc is for {able}, whose pods run torchrun, not for {kind.name}")
        spec["nprocPerNode"] = str(script.processes)
    launcher = next((each.name for each in kind.replica_types if not each.indexed), "")
    first = next((each.name for each in kind.replica_types if each.exactly == 1), "")
    replicas: Object = {}
    workers = script.workers
    if launcher:
        mpirun = ["mpirun", "--allow-run-as-root", "-np", str(workers)]
        replicas[launcher] = _replica(script, kind.container_name, 1, [*mpirun, *_command(script)])
        replicas["Worker"] = _replica(script, kind.container_name, workers, ["sleep", "infinity"])
    else:
        if first:
            replicas[first] = _replica(script, kind.container_name, 1, _command(script))
            workers -= 1
        if workers:
            replicas["Worker"] = _replica(script, kind.container_name, workers, _command(script))
    spec[kind.replica_specs_field] = replicas
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": _name(script.path)},
        "spec": spec,
    }


def _kind(wanted: str) -> JobKind:
    """Return the kind that is meant, by its name in any case, without `Job`, or by its framework."""
    for kind in SCRIPTED:
        if wanted.lower() in ("", kind.singular, kind.singular.removesuffix("job"), kind.framework):
            return kind
    raise UserError(
        f"--kind {wanted}: no kind that runs a script", "kinds: " + ", ".join(k.name for k in SCRIPTED)
    )


def _runs_torchrun(kind: JobKind) -> bool:
    return "nprocPerNode" in (node.properties if (node := schema(kind).child("spec")) else ())


def _command(script: Script) -> list[str]:
    if (
        script.processes is not None
    ):  # torchrun reads nodes, rank and rendezvous from PET_*, which the operator sets
        return ["python3", "-m", "torch.distributed.run", str(script.path), *script.arguments]
    return ["python3", "-u", str(script.path), *script.arguments]


def _replica(script: Script, container: str, count: int, command: list[str]) -> Object:
    folders = list(dict.fromkeys((script.path.parent, script.directory)))
    if len(folders) == 2 and folders[0].is_relative_to(folders[1]):
        folders = folders[1:]
    volumes = [(f"folder-{number}", str(folder)) for number, folder in enumerate(folders)]
    return {
        "replicas": count,
        "restartPolicy": "Never",
        "template": {
            "spec": {
                "terminationGracePeriodSeconds": GRACE_SECONDS,
                "containers": [
                    {
                        "name": container,
                        "image": IMAGE,
                        "command": command,
                        "workingDir": str(script.directory),
                        "volumeMounts": [{"name": name, "mountPath": path} for name, path in volumes],
                    }
                ],
                "volumes": [
                    {"name": name, "hostPath": {"path": path, "type": "Directory"}} for name, path in volumes
                ],
            }
        },
    }


def _name(path: Path) -> str:
    """Return a name for the job: that of the file, as DNS labels are written."""
    name = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")[:40].rstrip("-")
    return name if name[:1].isalpha() else f"run-{name}".rstrip("-")
