"""What a finished job leaves behind: time, accuracy and checkpoints, or the first failure; as values, and in words."""

from __future__ import annotations

import math
import re
import stat
from pathlib import Path

import msgspec

from trainshed.client.client import Client
from trainshed.client.transport import TransportError
from trainshed.kube.meta.duration import elapsed
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, name_of, objects, section, status_of
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES
from trainshed.kube.meta.times import parse_time
from trainshed.sdk import state as jobstate
from trainshed.sdk.followview import Outcome
from trainshed.sdk.remedies import image_of_nothing

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
FAILURE_LINES = 15
"""How many of its last lines a failed replica is quoted with."""


class Checkpoint(msgspec.Struct, frozen=True):
    """A model file that the job wrote on one of its claims."""

    file: Path
    claim: str
    size_bytes: int


class Success(msgspec.Struct, frozen=True):
    """What a succeeded job produced. What its logs and its status do not tell is None."""

    job: str
    seconds: float | None = None
    accuracy: float | None = None
    last_loss: float | None = None
    checkpoints: tuple[Checkpoint, ...] = ()

    def lines(self) -> list[str]:
        """Return it as a few lines of text."""
        lines = [
            f"{self.job} succeeded" + (f" in {elapsed(self.seconds)}" if self.seconds is not None else "")
        ]
        if self.accuracy is not None:
            lines.append(f"accuracy    {self.accuracy:.4f}")
        elif self.last_loss is not None:
            lines.append(f"last loss   {self.last_loss:.4f}")
        for found in self.checkpoints:
            lines.append(f"checkpoint  {found.file} (claim {found.claim}, {_size(found.size_bytes)})")
        return lines


class Failure(msgspec.Struct, frozen=True):
    """Why a job failed: the replica that failed first, and what the job's condition says.

    `replica` is empty when no container failed (a deadline, say); `signal` is 0 unless one ended the container;
    `tail` holds the replica's last log lines.
    """

    message: str
    replica: str = ""
    pod: str = ""
    reason: str = ""
    exit_code: int = 0
    signal: int = 0
    detail: str = ""
    tail: tuple[str, ...] = ()
    container: str = ""

    def lines(self) -> list[str]:
        """Return it as a few lines of text."""
        lines = []
        if self.replica:
            how = f"signal {self.signal}" if self.signal else f"exit code {self.exit_code}"
            where = f"pod {self.pod}" + (f", container {self.container}" if self.container else "")
            lines.append(f"{self.replica} failed first: {self.reason}, {how} ({where})")
            if self.detail:
                lines.append(f"  {self.detail}")
            lines.extend(f"  {line}" for line in self.tail)
        return [*lines, self.message]


async def success_of(client: Client, outcome: Outcome) -> Success:
    """Return what a succeeded job produced: time, accuracy, loss, and the checkpoints on its claims."""
    assert outcome.job is not None
    found = [
        Checkpoint(file, claim, _bytes(file))
        for claim, directory in await claimed_directories(client, outcome)
        for file in checkpoints(directory, _epoch_of(outcome.job))
    ]
    losses = outcome.progress.losses
    return Success(
        f"{outcome.job['kind']} {outcome.job['metadata']['name']}",
        _took(outcome.job),
        outcome.progress.accuracy,
        losses[-1] if losses else None,
        tuple(found),
    )


def failure_of(outcome: Outcome) -> Failure:
    """Return why the job failed, with the last lines of the replica that failed first."""
    assert outcome.job is not None
    failed = jobstate.condition(outcome.job, "Failed") or {}
    message = str(failed.get("message", "the job failed"))
    found = jobstate.first_failure(outcome.pods)
    if found is None:
        return Failure(message)
    pod, terminated = found
    replica = jobstate.replica_name(pod)
    return Failure(
        message,
        replica,
        pod["metadata"]["name"],
        str(terminated.get("reason", "Error")),
        int(terminated["exitCode"]),
        int(terminated.get("signal") or 0),
        str(terminated.get("message") or "").strip(),
        tuple(outcome.tails.get(replica, [])[-FAILURE_LINES:]),
        _unless_alone(pod, str(terminated.get("container", ""))),
    )


def _unless_alone(pod: Object, container: str) -> str:
    """Return the container's name where the pod has others that its job asks for, or it is an init container."""
    names = [entry.get("name") for entry in objects(section(pod, "spec"), "containers")]
    return "" if names == [container] else container


async def remedy_of(client: Client, outcome: Outcome, failure: Failure) -> str:
    """Return what to do about a failure, where that can be told: of a program that is not in an unregistered image."""
    said = "\n".join((failure.detail, *failure.tail))
    pod = next((pod for pod in outcome.pods if name_of(pod) == failure.pod), None)
    return "" if pod is None else await image_of_nothing(client, pod, said, failure.exit_code)


async def claimed_directories(client: Client, outcome: Outcome) -> list[tuple[str, Path]]:
    """Return (claim, directory) of each claim of the job's pods whose volume is a directory of this machine."""
    found: dict[str, Path] = {}
    for pod in outcome.pods:
        for volume in pod["spec"].get("volumes") or ():
            claim = section(volume, "persistentVolumeClaim").get("claimName")
            if claim and claim not in found:
                directory = await _directory(client, claim, pod["metadata"]["namespace"])
                if directory is not None and directory.is_dir():
                    found[claim] = directory
    return list(found.items())


async def _directory(client: Client, claim: str, namespace: str) -> Path | None:
    try:
        bound: Object = await client.get(PERSISTENTVOLUMECLAIMS, claim, namespace)
        volume = await client.get(PERSISTENTVOLUMES, bound["spec"].get("volumeName") or "-")
    except (ApiError, TransportError):
        return None
    spec = volume["spec"]
    path = (section(spec, "hostPath") or section(spec, "local")).get("path")
    return Path(path) if path else None


def checkpoints(directory: Path, since: float) -> list[Path]:
    """Return the checkpoints below the directory that were written at or after `since` (epoch seconds), newest first.

    Of several files in one directory, the newest that is no state of an optimizer or the like; a directory that
    `torch.distributed.checkpoint` wrote stands for itself. Data sets are left out.
    """
    newest: dict[Path, tuple[float, Path]] = {}
    for file in directory.rglob("*"):
        is_distributed = file.name == ".metadata"
        if not (is_distributed or file.suffix in CHECKPOINT_SUFFIXES) or _DATA.intersection(
            part.lower() for part in file.relative_to(directory).parts[:-1]
        ):
            continue
        try:
            status = file.stat()
        except OSError:  # it may be being written anew
            continue
        if not stat.S_ISREG(status.st_mode) or status.st_mtime < since or _BESIDE.search(file.stem):
            continue
        found = file.parent if is_distributed else file
        key = file.parent
        if is_distributed or key not in newest or newest[key][0] < status.st_mtime:
            newest[key] = (math.inf if is_distributed else status.st_mtime, found)
    ordered = sorted(newest.values(), key=lambda each: -each[1].stat().st_mtime)
    return [found for _, found in ordered[:_MOST_FILES]]


_DATA = frozenset({"data", "dataset", "datasets", "raw", "processed", "cache", ".cache"})
_BESIDE = re.compile(r"^(optimizer|scheduler|scaler|rng_state|training_args)")
"""What trainers write beside a model."""


def _took(job: Object) -> float | None:
    status = status_of(job)
    if not status.get("startTime") or not status.get("completionTime"):
        return None
    return parse_time(status["completionTime"]) - parse_time(status["startTime"])


def _epoch_of(job: Object) -> float:
    return parse_time(job["metadata"]["creationTimestamp"])


def _bytes(found: Path) -> int:
    files = found.rglob("*") if found.is_dir() else (found,)
    return sum(file.stat().st_size for file in files if file.is_file())


def _size(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
