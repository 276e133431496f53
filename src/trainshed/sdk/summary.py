"""What a finished job leaves behind, in a few lines: accuracy, checkpoint, or the first failure."""

from __future__ import annotations

from pathlib import Path

from trainshed.client.client import Client
from trainshed.kube.meta.duration import elapsed
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES
from trainshed.kube.meta.times import parse_time
from trainshed.sdk import state as jobstate
from trainshed.sdk.follow import Outcome

CHECKPOINT_SUFFIXES = (
    ".pt",
    ".pth",
    ".ckpt",
    ".safetensors",
    ".bin",
    ".h5",
    ".keras",
    ".pdparams",
    ".joblib",
    ".npz",
)
_MOST_FILES = 5
_FAILURE_LINES = 15


async def success_lines(client: Client, outcome: Outcome) -> list[str]:
    """Return what a succeeded job produced: time, accuracy, loss, and the checkpoints on its claims."""
    assert outcome.job is not None
    lines = []
    took = _took(outcome.job)
    name = outcome.job["metadata"]["name"]
    lines.append(
        f"{outcome.job['kind']} {name} succeeded" + (f" in {elapsed(took)}" if took is not None else "")
    )
    if outcome.progress.accuracy is not None:
        lines.append(f"accuracy    {outcome.progress.accuracy:.4f}")
    elif outcome.progress.losses:
        lines.append(f"last loss   {outcome.progress.losses[-1]:.4f}")
    for claim, directory in await claimed_directories(client, outcome):
        for file in checkpoints(directory, _epoch_of(outcome.job)):
            lines.append(f"checkpoint  {file} (claim {claim}, {_size(file)})")
    return lines


def failure_lines(outcome: Outcome) -> list[str]:
    """Return why the job failed, the first failing replica and its last lines first."""
    assert outcome.job is not None
    failed = jobstate.condition(outcome.job, "Failed") or {}
    found = jobstate.first_failure(outcome.pods)
    lines = []
    if found:
        pod, terminated = found
        replica = jobstate.replica_name(pod)
        how = f"exit code {terminated['exitCode']}"
        if terminated.get("signal"):
            how = f"signal {terminated['signal']}"
        reason = terminated.get("reason", "Error")
        lines.append(f"{replica} failed first: {reason}, {how} (pod {pod['metadata']['name']})")
        if terminated.get("message"):
            lines.append(f"  {terminated['message'].strip()}")
        lines.extend(f"  {line}" for line in outcome.tails.get(replica, [])[-_FAILURE_LINES:])
    lines.append(failed.get("message", "the job failed"))
    return lines


async def claimed_directories(client: Client, outcome: Outcome) -> list[tuple[str, Path]]:
    """Return (claim, directory) of each claim of the job's pods whose volume is a directory of this machine."""
    found: dict[str, Path] = {}
    for pod in outcome.pods:
        for volume in pod["spec"].get("volumes") or ():
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if claim and claim not in found:
                directory = await _directory(client, claim, pod["metadata"]["namespace"])
                if directory is not None and directory.is_dir():
                    found[claim] = directory
    return list(found.items())


async def _directory(client: Client, claim: str, namespace: str) -> Path | None:
    try:
        bound: Object = await client.get(PERSISTENTVOLUMECLAIMS, claim, namespace)
        volume = await client.get(PERSISTENTVOLUMES, bound["spec"].get("volumeName") or "-")
    except ApiError:
        return None
    path = (volume["spec"].get("hostPath") or volume["spec"].get("local") or {}).get("path")
    return Path(path) if path else None


def checkpoints(directory: Path, since: float) -> list[Path]:
    """Return the model files below the directory that were written at or after `since` (epoch seconds)."""
    found = [
        file
        for file in sorted(directory.rglob("*"))
        if file.suffix in CHECKPOINT_SUFFIXES and file.is_file() and file.stat().st_mtime >= since
    ]
    return found[:_MOST_FILES]


def _took(job: Object) -> float | None:
    status = job.get("status") or {}
    if not status.get("startTime") or not status.get("completionTime"):
        return None
    return parse_time(status["completionTime"]) - parse_time(status["startTime"])


def _epoch_of(job: Object) -> float:
    return parse_time(job["metadata"]["creationTimestamp"])


def _size(file: Path) -> str:
    size = float(file.stat().st_size)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
