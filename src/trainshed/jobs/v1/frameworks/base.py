"""What a kind has to say about its jobs, in phases: values in, values out; none touches a pod or a status itself.

    shape       which replicas there are is in the kind's declaration; `service_ports` says which have a Service
    pods        `patch`: what is added to one pod, container by container
    runs        `takes_part`: whether a run that has begun has the part at all
    objects     `owns`, `lookups`, `owned`: further objects, and how they are observed; `holds`: wait before making pods
    judgement   `judge`: what the children as observed mean for the job; `restart`: what becomes of a failed pod
    words       the messages of conditions, `creation` for the events of a new pod, `events` for those of each pass,
                `invalid` for that of a job that cannot run
    flags       `flags`, `options`: what the operator can be told at its start

A `Phase` says what any part adds to every job, whatever its kind. A `Framework` is the phase of one kind, with a
judgement. Every method has a default: a framework implements what its kind needs. `jobs.v1.decide` applies phases in
the order of `jobs.v1.phases`, the framework first, and refuses two that set the same place of a pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from trainshed.api.replicated import JobKind
from trainshed.jobs.engine import constants as c
from trainshed.jobs.engine.children import Children, Tally, exit_code, tally
from trainshed.jobs.engine.events import exit_events
from trainshed.jobs.engine.job import Replica
from trainshed.jobs.engine.model import Flag, OperatorOptions
from trainshed.jobs.engine.owned import POD_EVENTS, Grant, Owned, Owns
from trainshed.jobs.v1 import restart
from trainshed.jobs.v1.job import Job
from trainshed.kube.meta.objects import Object, objects, spec_of
from trainshed.kube.meta.plan import Event, Tells, Told
from trainshed.kube.meta.pods import container_named, port_named
from trainshed.kube.meta.resources import Resource

Selector: TypeAlias = Literal["all", "training", "first", "init"]
"""Which containers of a template: all regular ones, the first with the kind's name, the first of all, all init ones."""


class ContainerPatch(msgspec.Struct, frozen=True, kw_only=True):
    """What is added to the containers that `of` selects.

    `env` and `mounts` come after those of the template; `command` and `args`, where not None, replace them.
    """

    of: Selector = "all"
    env: tuple[Object, ...] = ()
    mounts: tuple[Object, ...] = ()
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None


class PodPatch(msgspec.Struct, frozen=True, kw_only=True):
    """What one phase adds to one pod. Lists come after those of the template; names and maps replace what is there."""

    containers: tuple[ContainerPatch, ...] = ()
    init_containers: tuple[Object, ...] = ()
    volumes: tuple[Object, ...] = ()
    service_account: str | None = None
    scheduler_name: str | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a judgement is made of: the children with their slots and counts, stored conditions, owned objects."""

    children: Children
    tallies: Mapping[str, Tally]
    conditions: Sequence[Object] = ()
    owned: Mapping[Resource, Sequence[Object]] = {}

    def pod(self, type_: str, index: int) -> Object | None:
        """Return the pod of one replica."""
        slots = (s for s in self.children.slots if s.replica.type == type_ and s.index == index)
        return next((slot.pod for slot in slots), None)


class Failing(msgspec.Struct, frozen=True):
    """One replica type that lacks pods because `failed` of them failed; `restarts` says they are replaced.

    `reason` is that of a Failed condition where it is not the usual one.
    """

    replica_type: str
    failed: int
    restarts: bool
    message: str
    reason: str = ""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What the children mean for the job. `running` and `succeeded` hold the message of that condition, or None.

    Once a job has succeeded nothing else is said about it, save that it ran where `ran_first` asks for that.
    """

    running: str | None = None
    succeeded: str | None = None
    failing: tuple[Failing, ...] = ()
    ran_first: bool = False


class Phase:
    """What one part adds to every job."""

    owns: tuple[Owns, ...] = ()
    """Resources beside pods and services of which jobs own objects."""
    reads: tuple[Resource, ...] = ()
    """Resources that `lookups` asks for and that no job owns."""
    grants: tuple[Grant, ...] = ()
    """Permissions that the owned objects hand on."""

    def is_enabled(self, options: OperatorOptions) -> bool:
        """Return whether the operator was started with this part."""
        return True

    def takes_part(self, job: Job, seen: Seen) -> bool:
        """Return whether a run has this part; what it has made for one that has it no more stays."""
        return True

    def lookups(self, document: Object) -> tuple[tuple[Resource, str], ...]:
        """Return which unwatched objects of the job's namespace are to be looked up by name at each pass."""
        return ()

    def owned(self, job: Job, seen: Seen, options: OperatorOptions) -> tuple[Owned, ...] | None:
        """Return the objects that a running job wants, in the order of creation; they come before the pods.

        None leaves all that is there as it is, and makes nothing.
        """
        return ()

    def holds(self, job: Job, seen: Seen, options: OperatorOptions) -> bool:
        """Return whether pods have to wait for something that is owned."""
        return False

    def patch(self, job: Job, replica: Replica, index: int, options: OperatorOptions) -> PodPatch:
        """Return what is added to one pod."""
        return PodPatch()

    def creation_events(self, job: Job, framework: Framework, options: OperatorOptions) -> tuple[Event, ...]:
        """Return what is said of every new pod, before its creation is."""
        return ()

    def events(self, job: Job, seen: Seen) -> Iterable[Event]:
        """Yield what to say in each pass."""
        return ()


class Framework(Phase):
    """One way to train in parallel: the phase of one kind, and its judgement."""

    kind: ClassVar[JobKind]
    flags: tuple[Flag, ...] = ()
    surplus_told: ClassVar[Tells | None] = POD_EVENTS
    """How the deletion of pods above the replica count is told; None for silence."""
    set_word: ClassVar[str] = "Set"
    """How the reasons of warnings begin that a template sets what it does not decide."""
    copies_finalizers: ClassVar[bool] = True
    """Pods have the finalizers of their template."""

    def options(self, values: Mapping[str, Any]) -> msgspec.Struct | None:
        """Return what the flags of the kind say, by the name of each; `options.by_kind` then has it.

        Raises ValueError for a value that cannot be used, naming its flag.
        """
        return None

    # Shape.

    def leader(self, job: Job) -> Replica | None:
        """Return the replica type that speaks for the job: the first of the kind's that the job has."""
        return job.replicas[0] if job.replicas else None

    def is_master(self, job: Job, replica: Replica, index: int) -> bool:
        """Return whether this pod speaks for the job: its logs are the ones to show."""
        leader = self.leader(job)
        return leader is not None and replica.type == leader.type and index == 0

    def service_ports(self, job: Job, replica: Replica, index: int) -> tuple[Object, ...] | None:
        """Return the ports of the Service that names one pod, or None where it has none.

        By default those of the training container, sorted by name; unnamed ones collapse into the last, all are TCP.
        """
        return job.once(("service ports", replica.type), lambda: _service_ports(job, replica))

    # Judgement.

    def tallies(self, job: Job, children: Children) -> dict[str, Tally]:
        """Return how the pods of each replica type are doing."""
        return {replica.type: tally(children.of(replica)) for replica in job.replicas}

    def judge(self, job: Job, seen: Seen) -> Judgement:
        """Return what the children mean for the job: by default, the leader's type decides."""
        leader = self.leader(job)
        if leader is None:
            return Judgement(failing=tuple(self.failing(job, seen)))
        running = self.running_message(job) if seen.tallies[leader.type].active > 0 else None
        # No replicas at all (scaled to zero) is waiting, not success.
        if leader.count > 0 and self.has_succeeded(job, leader, seen):
            return Judgement(running=running, succeeded=self.succeeded_message(job))
        return Judgement(running=running, failing=tuple(self.failing(job, seen)))

    def has_succeeded(self, job: Job, leader: Replica, seen: Seen) -> bool:
        """Return whether the job is done: by default, when all of the leader's type ended well."""
        return seen.tallies[leader.type].succeeded >= leader.count

    def failing(self, job: Job, seen: Seen) -> Iterator[Failing]:
        """Yield the types that lack pods because some failed; pods above the replica count may fail freely."""
        for replica in job.replicas:
            tally = seen.tallies[replica.type]
            if tally.failed > 0 and replica.count > tally.succeeded + tally.active:
                restarts = replica.restart_policy != "Never"
                message = self.failing_message(job, replica, tally.failed, restarts)
                yield Failing(replica.type, tally.failed, restarts, message)

    def exit_code(self, pod: Object) -> int | None:
        """Return how the program of a pod ended, None where that was not recorded."""
        return exit_code(pod, self.kind.container_name)

    def restart(self, job: Job, replica: Replica, exit_code: int | None) -> restart.Restart:
        """Return what becomes of a failed pod; `exit_code` is that of its program, if recorded."""
        return restart.by_policy(replica.restart_policy, exit_code)

    # Words.

    def running_message(self, job: Job) -> str:
        """Return the message of the condition Running."""
        return f"{job.kind.name} {job.name} is running."

    def succeeded_message(self, job: Job) -> str:
        """Return the message of the condition Succeeded."""
        return f"{job.kind.name} {job.name} is successfully completed."

    def failing_message(self, job: Job, replica: Replica, failed: int, restarts: bool) -> str:
        """Return the message of the condition Restarting or Failed."""
        verb = "restarting" if restarts else "failed"
        return f"{job.kind.name} {job.name} is {verb} because {failed} {replica.type} replica(s) failed."

    def invalid(self, why: str) -> Event:
        """Return the event of a stored job that cannot run."""
        name = self.kind.name
        return Event(
            "Warning", c.reason(name, c.FAILED_VALIDATION), f"{name} failed validation because {why}"
        )

    def creation(self, job: Job, replica: Replica, name: str) -> Told:
        """Return the events of the new pod `name`; the first warns where its template says another restart policy."""
        told = POD_EVENTS.created(name)
        if not spec_of(replica.template).get("restartPolicy"):
            return told
        warning = Event("Warning", c.SET_POD_TEMPLATE_RESTART_POLICY, c.RESTART_POLICY_OVERRIDDEN_MESSAGE)
        return Told((warning, *told.done), told.failed)

    def events(self, job: Job, seen: Seen) -> Iterable[Event]:
        """Yield what to say about the children in each pass: by default, the exit codes of containers that ended."""
        return exit_events(job, seen.children, self.kind.container_name)


def _service_ports(job: Job, replica: Replica) -> tuple[Object, ...]:
    container = container_named(spec_of(replica.template), job.kind.container_name) or {}
    ports = {str(p.get("name") or ""): p.get("containerPort") for p in objects(container, "ports")}
    return tuple({"name": n, "port": p} if n else {"port": p} for n, p in sorted(ports.items()))


def variable(name: str, value: str) -> Object:
    """Return an EnvVar; the wire form of an empty value is no value."""
    return {"name": name, "value": value} if value else {"name": name}


def port_of(job: Job, replica: Replica | None) -> int:
    """Return the port on which the training container of a replica type listens, else the kind's own.

    Raises ValueError for a kind whose pods do not listen.
    """
    type_ = None if replica is None else replica.type
    return job.once(("port", type_), lambda: _port_of(job, replica))


def _port_of(job: Job, replica: Replica | None) -> int:
    declared = job.kind.port
    if declared is None:
        raise ValueError(f"a {job.kind.name} has no port")
    template = replica.template if replica is not None else {}
    container = container_named(spec_of(template), job.kind.container_name)
    port = port_named(container, declared.name) if container is not None else None
    return port if port is not None else declared.number
