"""What is swept: jobs of every kind, and what happens to each of them. Data and the doings of users, nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import TypeAlias

import msgspec

from tests.fakes.manifests import replicas_of
from tests.fakes.operator_world import World
from tests.fakes.training import conditions
from trainshed.api.replicated import JobKind
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.podgroups import COSCHEDULING_SCHEDULER, VOLCANO_SCHEDULER
from trainshed.testing.builders import JOB_KINDS, make_job, make_pod_spec, make_replica

SECONDS = 100.0
"""How long the pods of a job run that are not stopped: longer than all that a user does, and than any fault takes."""
FAILS_AFTER = 25.0
"""How long a pod runs that fails: long enough that it is always seen to have run."""
GRACE = 2.0


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """One form that jobs of a kind take. Pods of the types in `endless` run until they are deleted.

    With `gang` the operator knows a gang scheduler of that name, and the pods have a priority.
    """

    kind: str
    counts: Mapping[str, int]
    form: str = ""
    endless: Collection[str] = ()
    spec: Mapping[str, object] = {}
    gang: str = ""

    def __str__(self) -> str:
        return f"{self.kind}-{self.form}" if self.form else self.kind

    @property
    def declared(self) -> JobKind:
        """The declaration of the kind."""
        return JOB_KINDS[self.kind]

    def pod(self, type_: str, index: int) -> str:
        """Return the name of one pod of the job."""
        return f"job-{type_.lower()}" + (f"-{index}" if self.declared.replica_type(type_).indexed else "")

    @property
    def pods(self) -> list[str]:
        """The names of all pods, in the order in which they are made."""
        types = [name for name in self.declared.type_names if name in self.counts]
        return [self.pod(type_, index) for type_ in types for index in range(self.counts[type_])]

    def job(self, policy: str, **run_policy: object) -> Object:
        """Return the job as a user sends it, with this restart policy everywhere."""

        def replica(type_: str) -> Object | None:
            if type_ not in self.counts:
                return None
            spec = make_pod_spec(name=self.declared.container_name, image="train:1", command=["train"])
            if self.gang:
                spec["priorityClassName"] = "high"
            return make_replica(self.counts[type_], spec, restart_policy=policy)

        replicas = [replica(type_) for type_ in self.declared.type_names]
        return make_job("job", *replicas, kind=self.kind, namespace="ns", spec=self.spec, **run_policy)


_METRICS = [
    {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }
]
_FORMS = (
    Shape(
        kind="PyTorchJob",
        form="elastic",
        counts={"Worker": 2},
        spec={"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3, "metrics": _METRICS}},
    ),
    Shape(kind="TFJob", counts={"PS": 1, "Worker": 2}, endless=("ps",)),
    Shape(kind="TFJob", form="chief", counts={"Chief": 1, "Worker": 1, "Evaluator": 1}),
    Shape(kind="MPIJob", counts={"Launcher": 1, "Worker": 2}, endless=("worker",)),
    Shape(kind="PaddleJob", form="collective", counts={"Worker": 2}),
    Shape(
        kind="MXJob",
        counts={"Scheduler": 1, "Server": 1, "Worker": 2},
        endless=("server",),
        spec={"jobMode": "MXTrain"},
    ),
    Shape(kind="PyTorchJob", form="volcano", counts={"Master": 1, "Worker": 2}, gang=VOLCANO_SCHEDULER),
    Shape(
        kind="MPIJob",
        form="volcano",
        counts={"Launcher": 1, "Worker": 2},
        endless=("worker",),
        gang=VOLCANO_SCHEDULER,
    ),
    Shape(kind="JAXJob", form="plugins", counts={"Worker": 2}, gang=COSCHEDULING_SCHEDULER),
)
_PLAIN = {shape.kind for shape in _FORMS if not shape.form}
SHAPES = (
    *(Shape(kind=kind, counts=replicas_of(kind)) for kind in JOB_KINDS if kind not in _PLAIN),
    *_FORMS,
)
"""Every kind as people write it, and the forms beside that."""

Steps: TypeAlias = Callable[[World, Shape], Awaitable[None]]


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to a job.

    Attributes:
        steps: what its user does once the job is there.
        over: whether all has come to its end; it must then stay so.
        fails: the pod that fails once, as an index into those of the shape; None for none.
        exit_code: with which it fails.
        runs: how often each pod runs that neither fails nor is scaled.
    """

    name: str
    over: Callable[[World], bool]
    steps: Steps | None = None
    policy: str = "ExitCode"
    run_policy: Mapping[str, object] = {}
    fails: int | None = None
    exit_code: int = 137
    runs: int = 1

    def __str__(self) -> str:
        return self.name

    def expected_runs(self, shape: Shape) -> dict[str, int]:
        """Return how often each pod is to run."""
        counts = dict.fromkeys(shape.pods, self.runs)
        if self.fails is not None and self.policy == "ExitCode":
            counts[shape.pods[self.fails]] += 1
        if self.name == "scale":
            counts[shape.pod("Worker", shape.counts["Worker"])] = 1
        return counts


def _has(world: World, type_: str) -> bool:
    return (type_, "True") in conditions(world.job)


def _succeeded(world: World) -> bool:
    return _has(world, "Succeeded")


def _succeeded_and_clean(world: World) -> bool:
    return _succeeded(world) and not world.names("pods") and not world.names("services")


def _failed_and_clean(world: World) -> bool:
    return _has(world, "Failed") and not world.names("pods") and not world.names("services")


def _nothing_left(world: World) -> bool:
    left = ("pods", "services", "podgroups", world.kind.plural)
    return bool(world.kubelet.runs) and not any(world.names(plural) for plural in left)


async def _all_run(world: World, names: Collection[str]) -> None:
    def running() -> bool:
        phases = {
            path.rpartition("/")[2]: (pod.get("status") or {}).get("phase")
            for path, pod in world.api.objects.items()
            if "/pods/" in path
        }
        return set(phases) == set(names) and set(phases.values()) == {"Running"}

    await world.until(f"exactly {sorted(names)} run", running)
    await world.until("Running is said", lambda: _has(world, "Running"))


async def _edit(world: World, **spec: object) -> None:
    """Change fields of the spec, as `kubectl patch` does."""
    await world.api.put(world.path, spec={**world.job["spec"], **spec})


async def _suspend(world: World, shape: Shape) -> None:
    await _all_run(world, shape.pods)
    policy = world.job["spec"].get("runPolicy") or {}
    await _edit(world, runPolicy={**policy, "suspend": True})
    await world.until("suspended", lambda: _has(world, "Suspended") and not world.names("pods"))
    await _edit(world, runPolicy={**policy, "suspend": False})
    await _all_run(world, shape.pods)


async def _scale(world: World, shape: Shape) -> None:
    """One worker more, then one alone."""
    field, count = shape.declared.replica_specs_field, shape.counts["Worker"]

    async def to(replicas: int) -> None:
        specs = world.job["spec"][field]
        await _edit(world, **{field: {**specs, "Worker": {**specs["Worker"], "replicas": replicas}}})
        others = [name for name in shape.pods if not name.startswith("job-worker-")]
        await _all_run(world, [*others, *(shape.pod("Worker", index) for index in range(replicas))])

    await _all_run(world, shape.pods)
    await to(count + 1)
    await to(1)


async def _delete(world: World, shape: Shape) -> None:
    """In the foreground: the job is there, and going, until all that it owns is gone."""
    await _all_run(world, shape.pods)
    await world.api.put(
        world.path,
        metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]},
    )


async def _recreate(world: World, shape: Shape) -> None:
    """In the background, and at once again under the same name, while the pods of the first are going."""
    await _all_run(world, shape.pods)
    job = {key: value for key, value in world.job.items() if key not in ("metadata", "status")}
    await world.api.remove(world.path)
    await world.api.put(world.path, **job)


SCENARIOS = (
    Scenario(name="run", over=_succeeded, policy="OnFailure"),
    Scenario(name="restart", over=_succeeded_and_clean, fails=-1, run_policy={"cleanPodPolicy": "All"}),
    Scenario(name="restart-first", over=_succeeded_and_clean, fails=0, run_policy={"cleanPodPolicy": "All"}),
    Scenario(
        name="fail",
        over=_failed_and_clean,
        fails=-1,
        exit_code=1,
        policy="Never",
        run_policy={"cleanPodPolicy": "All"},
    ),
    Scenario(name="suspend", over=_succeeded, steps=_suspend, runs=2),
    Scenario(name="scale", over=_succeeded, steps=_scale),
    Scenario(name="delete", over=_nothing_left, steps=_delete),
    Scenario(name="recreate", over=_succeeded, steps=_recreate, runs=2),
    Scenario(name="expire", over=_nothing_left, run_policy={"ttlSecondsAfterFinished": 20}),
    Scenario(name="deadline", over=_failed_and_clean, run_policy={"activeDeadlineSeconds": 30}),
)


def cases() -> Iterator[tuple[Shape, Scenario]]:
    """Yield every scenario of every shape."""
    for shape in SHAPES:
        for scenario in SCENARIOS:
            yield shape, scenario
