"""Training jobs on a server: find, list, suspend, resume and delete them; their pods, events and logs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from trainshed.api.registry import KINDS
from trainshed.client.client import Client
from trainshed.jobs.engine.constants import LABEL_JOB_NAME
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import (
    Object,
    metadata_of,
    name_of,
    namespace_of,
    objects,
    section,
    status_of,
    uid_of,
)
from trainshed.kube.meta.resources import EVENTS, PODS, Resource
from trainshed.kube.meta.times import time_or_none
from trainshed.kube.wire.options import LogOptions
from trainshed.sdk import state as jobstate
from trainshed.sdk.apply import spoken
from trainshed.sdk.errors import UserError
from trainshed.sdk.gone import wait_gone
from trainshed.sdk.logs import Source
from trainshed.sdk.progress import Progress, advance
from trainshed.sdk.run import delete_job, gone_seconds, is_going


class Found(msgspec.Struct, frozen=True):
    """A job and the resource that serves its kind."""

    resource: Resource
    obj: Object

    @property
    def name(self) -> str:
        """As kubectl names it: `pytorchjob.kubeflow.org/mnist`."""
        return spoken(self.resource, name_of(self.obj))


class Event(msgspec.Struct, frozen=True):
    """One event about a job or one of its pods. `time` is RFC 3339 in UTC: when it was seen last."""

    time: str
    type: str
    reason: str
    message: str
    about: str
    count: int = 1


class LogLine(msgspec.Struct, frozen=True):
    """One line that a replica printed. `time` is seconds since the epoch, None where it is not known."""

    replica: str
    text: str
    time: float | None = None

    def __str__(self) -> str:
        return f"[{self.replica}] {self.text}"


async def kinds(client: Client) -> list[Resource]:
    """Return our kinds that the server serves. ApiError 404 where it has none of their groups."""
    found: list[Resource] = []
    missing: ApiError | None = None
    for api_version in dict.fromkeys(kind.api_version for kind in KINDS.values()):
        try:
            answer = await client.raw_get(f"/apis/{api_version}", accept="application/json")
        except ApiError as error:
            if error.code != 404:
                raise
            missing = error
            continue
        served = {row["name"] for row in msgspec.json.decode(answer)["resources"]}
        ours = [kind.resource for kind in KINDS.values() if kind.api_version == api_version]
        found += [resource for resource in ours if resource.plural in served]
    if missing is not None and not found:
        raise missing
    return found


async def find(client: Client, name: str, namespace: str | None = None) -> Found:
    """Return the job that `NAME` or `KIND/NAME` means.

    Raises:
        UserError: there is no such job, or no such kind.
    """
    kind, _, bare = name.rpartition("/")
    served = await kinds(client)
    wanted = kind.lower().partition(".")[0]
    candidates = [r for r in served if not kind or wanted in (r.plural, r.kind.lower())]
    if not candidates:
        raise UserError(f'no job kind "{kind}"', "one of: " + ", ".join(r.kind for r in served))
    for resource in candidates:
        try:
            return Found(resource, await client.get(resource, bare, namespace))
        except ApiError as error:
            if error.code != 404:
                raise
    raise UserError(
        f'no job "{bare}" in namespace {namespace or client.namespace}',
        "trainshed list -A lists the jobs of all namespaces",
    )


async def list_jobs(client: Client, namespace: str | None) -> list[Found]:
    """Return the jobs of every kind in a namespace, or of all namespaces, by namespace and name."""
    found = [
        Found(resource, obj)
        for resource in await kinds(client)
        for obj in (await client.list(resource, namespace)).items
    ]
    return sorted(found, key=lambda job: (namespace_of(job.obj), name_of(job.obj)))


class Summary(msgspec.Struct, frozen=True):
    """A job in a row of a list. Instants are in seconds since the epoch; `replicas` says how many of each type run."""

    kind: str
    namespace: str
    name: str
    state: str
    replicas: dict[str, str]
    created: float
    started: float | None = None
    completed: float | None = None

    def seconds(self, now: float) -> float | None:
        """Return how long the job took, or has taken by `now`; None before it started."""
        return None if self.started is None else max((self.completed or now) - self.started, 0.0)


def summary_of(job: Found) -> Summary:
    """Return the job as a row: `replicas` maps each type to `2/4` while it runs, else to how many it has."""
    status = status_of(job.obj)
    finished = jobstate.is_finished(job.obj)
    replicas = {}
    for kind, spec in jobstate.replica_specs(job.obj).items():
        active = section(status, "replicaStatuses", kind).get("active")
        wanted = jobstate.replica_count(spec)
        replicas[kind] = str(wanted) if finished or active is None else f"{active}/{wanted}"
    return Summary(
        kind=job.resource.kind,
        namespace=namespace_of(job.obj),
        name=name_of(job.obj),
        state="Terminating" if is_going(job.obj) else jobstate.state_of(job.obj),
        replicas=replicas,
        created=time_or_none(section(job.obj, "metadata").get("creationTimestamp")) or 0.0,
        started=time_or_none(status.get("startTime")),
        completed=time_or_none(status.get("completionTime")),
    )


def of_replica(job: Found, pods: Sequence[Object], replica: str | None) -> list[Object]:
    """Return the pods of that replica, named as such or as a pod; of all when none is named.

    Raises:
        UserError: the job has no such replica.
    """
    chosen = [pod for pod in pods if replica in (None, jobstate.replica_name(pod), name_of(pod))]
    if replica is not None and not chosen:
        known = ", ".join(jobstate.replica_name(pod) for pod in pods) or "none"
        raise UserError(
            f"{job.resource.kind} {name_of(job.obj)} has no replica {replica!r}", f"it has: {known}"
        )
    return chosen


def sources_of(job: Found, pods: Sequence[Object]) -> list[Source]:
    """Return the containers of these pods that have a log, and under which name its lines are shown."""
    inits = jobstate.init_containers(job.obj)
    found = []
    for pod in pods:
        replica = jobstate.replica_name(pod)
        for container, _ in jobstate.started_instances(pod, inits):
            shown = f"{replica}/{container}" if container in inits else replica
            found.append(Source(shown, name_of(pod), namespace_of(pod), container))
    return found


async def set_suspend(client: Client, job: Found, value: bool) -> Object:
    """Return the job after it was told to suspend or to go on. Raises UserError when it is finished."""
    if jobstate.is_finished(job.obj):
        raise UserError(f"{job.obj['kind']} {name_of(job.obj)} is finished already")
    patch = {"spec": {"runPolicy": {"suspend": value}}}
    return await client.patch(job.resource, name_of(job.obj), namespace_of(job.obj), patch)


async def delete(client: Client, job: Found, *, wait: bool) -> None:
    """Delete the job and its pods; with `wait`, return when they are gone. Claims and what lies on them stay."""
    name, namespace = name_of(job.obj), namespace_of(job.obj)
    await delete_job(client, job.resource, job.obj)
    if wait:
        await wait_gone(client, job.resource, name, namespace, gone_seconds(job.obj))


async def pods_of(client: Client, job: Object) -> list[Object]:
    """Return the job's pods in the order of their ranks."""
    selector = f"{LABEL_JOB_NAME}={name_of(job)}"
    found = (await client.list(PODS, namespace_of(job), label_selector=selector)).items
    return jobstate.rank_order([pod for pod in found if owned_by(pod, uid_of(job))])


def owned_by(obj: Object, uid: str) -> bool:
    """Return whether the object with this uid is among the object's owners."""
    return any(owner.get("uid") == uid for owner in objects(metadata_of(obj), "ownerReferences"))


async def events_of(client: Client, job: Object, pods: Sequence[Object]) -> list[Event]:
    """Return the events about the job and these of its pods, the oldest first."""
    about = {uid_of(obj) for obj in (job, *pods)}
    listed = (await client.list(EVENTS, namespace_of(job))).items
    found = [_event(event) for event in listed if section(event, "involvedObject").get("uid") in about]
    return sorted(found, key=lambda event: time_or_none(event.time) or 0.0)


def _event(event: Object) -> Event:
    involved = section(event, "involvedObject")
    when = event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp")
    return Event(
        time=str(when or metadata_of(event).get("creationTimestamp") or ""),
        type=str(event.get("type") or ""),
        reason=str(event.get("reason") or ""),
        message=str(event.get("message") or ""),
        about=f"{involved.get('kind')}/{involved.get('name')}",
        count=int(event.get("count") or 1),
    )


async def logs_of(client: Client, pod: Object, *, tail: int | None = None) -> AsyncGenerator[LogLine, None]:
    """Yield the lines that the pod's containers have printed so far; with `tail`, the last of each."""
    replica = jobstate.replica_name(pod)
    for container, _ in jobstate.started_instances(pod):
        stream = client.logs(
            name_of(pod),
            namespace_of(pod),
            LogOptions(container=container, tail_lines=tail, timestamps=True),
        )
        rest = b""
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                *complete, rest = (rest + chunk).split(b"\n")
                for line in complete:
                    yield _line(replica, line)
        if rest:
            yield _line(replica, rest)


def _line(replica: str, line: bytes) -> LogLine:
    stamp, _, text = line.decode("utf-8", "replace").partition(" ")
    return LogLine(replica, text, time_or_none(stamp))


async def progress_of(client: Client, job: Object, pods: Sequence[Object]) -> Progress:
    """Return how far the job is by the log of the first replica, in the order of ranks, that tells."""
    start = Progress(epochs=jobstate.epochs(job))
    for pod in pods:
        progress = start
        async with aclosing(logs_of(client, pod)) as lines:
            async for line in lines:
                progress = advance(progress, line.text, line.time or 0.0)
        if progress.is_told:
            return progress
    return start
