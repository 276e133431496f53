"""The operator on the real store and API server, as its own service account, with a kubelet that plays pods.

What it may do is what its manifests grant: the API server evaluates the very roles that are installed.
`tests/histories/test_operator_faults.py` has the exhaustive faults; here are those that need the real server.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.fakes.chores import Chores
from tests.fakes.training import KillingTransport, conditions, make_job
from trainshed.api.registry import KINDS
from trainshed.api.v1.pytorch import PYTORCHJOB
from trainshed.client.asgi import AsgiTransport
from trainshed.client.client import Client
from trainshed.client.informer import Informer
from trainshed.client.transport import Transport
from trainshed.cluster.apiserver.access import Authenticator, RbacAuthorizer
from trainshed.cluster.apiserver.app import ApiServer
from trainshed.cluster.apiserver.tokens import TokenIssuer
from trainshed.cluster.store import Store
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import (
    EVENTS,
    HORIZONTALPODAUTOSCALERS,
    NAMESPACES,
    PODS,
    SERVICEACCOUNTS,
    SERVICES,
    Resource,
)
from trainshed.operator.install import embedded_objects
from trainshed.operator.manager import Operator

ALL = ["job-master-0", "job-worker-0", "job-worker-1"]
DEADLINE = 30.0


class Kubelet:
    """Binds pods to a node that does not exist, reports them Running, and ends them when told to."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.runs: list[str] = []
        self.pods = Informer(client, PODS, namespace="ns")
        self.pods.add_handler(self._changed)
        self._chores = Chores()
        self._started: set[str] = set()

    def _changed(self, kind: str, old: Object | None, pod: Object) -> None:
        if kind == "DELETED":
            return
        if "deletionTimestamp" in pod["metadata"]:
            self._chores.do(self._client.delete(PODS, pod["metadata"]["name"], "ns", grace_period_seconds=0))
        elif pod["metadata"]["uid"] not in self._started:
            self._started.add(pod["metadata"]["uid"])
            self.runs.append(pod["metadata"]["name"])
            self._chores.do(self._start(pod["metadata"]["name"]))

    async def _start(self, name: str) -> None:
        await self._client.bind(name, "ns", "node")
        await self.report(name, "Running")

    async def report(self, name: str, phase: str, exit_code: int = 0) -> None:
        """Write the status of a pod."""
        state: Object = {"running": {}}
        if phase != "Running":
            state = {"terminated": {"exitCode": exit_code}}
        container = {
            "name": "pytorch",
            "image": "train:1",
            "imageID": "",
            "ready": phase == "Running",
            "restartCount": 0,
            "state": state,
        }
        status = {"status": {"phase": phase, "containerStatuses": [container]}}
        await self._client.patch(PODS, name, "ns", status, subresource="status")


class World:
    """A server with the operator installed, a kubelet, and one operator at a time."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self.admin = Client(AsgiTransport(api, "admin", ["system:masters"]))
        self.kubelet = Kubelet(self.admin)
        self.jobs = Informer(self.admin, PYTORCHJOB.resource)
        self.tasks = [asyncio.create_task(part.run()) for part in (self.kubelet.pods, self.jobs)]
        self.operator: Operator | None = None
        self._operator_task: asyncio.Task[None] | None = None

    def transport(self) -> AsgiTransport:
        """Return the operator's own way in: its service account."""
        user = "system:serviceaccount:kubeflow:training-operator"
        return AsgiTransport(self._api, user, ["system:serviceaccounts"], user_agent="training-operator")

    async def mirror(self, informer: Informer) -> Informer:
        """Keep an informer up to date for as long as the world lasts."""
        self.tasks.append(asyncio.create_task(informer.run()))
        await informer.wait_synced(DEADLINE)
        return informer

    async def watch(self, jobs: Resource) -> None:
        """Have `job` be one of another kind."""
        self.jobs = await self.mirror(Informer(self.admin, jobs))

    def start(self, transport: Transport | None = None) -> None:
        self.operator = Operator(
            Client(transport or self.transport(), user_agent="training-operator"),
            OperatorOptions(),
            kinds=tuple(KINDS),
        )
        self._operator_task = asyncio.create_task(self.operator.run())

    async def finish(self) -> None:
        """End the operator in good order: its events are written then."""
        assert self._operator_task is not None and self.operator is not None
        self.operator.stop()
        await asyncio.wait_for(self._operator_task, DEADLINE)
        await self.operator.close()

    async def kill(self) -> None:
        assert self._operator_task is not None and self.operator is not None
        self._operator_task.cancel()
        await asyncio.wait([self._operator_task])
        await self.operator.close(timeout=0)
        self.operator = None

    async def close(self) -> None:
        if self.operator is not None:
            await self.kill()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    @property
    def job(self) -> Object:
        return self.jobs.get("ns", "job") or {}

    async def names(self, resource: Resource) -> list[str]:
        return [o["metadata"]["name"] for o in (await self.admin.list(resource, "ns")).items]

    async def until(self, what: str, predicate: Callable[[], bool]) -> None:
        """Wait on the informers' own pace; they see a write within milliseconds."""
        end = time.monotonic() + DEADLINE
        while not predicate():
            assert time.monotonic() < end, (
                f"not within {DEADLINE} s: {what}; status: {self.job.get('status')}"
            )
            await asyncio.sleep(0.005)

    def is_true(self, type_: str) -> bool:
        return (type_, "True") in conditions(self.job)

    def all_running(self) -> bool:
        statuses = (self.job.get("status") or {}).get("replicaStatuses") or {}
        return statuses.get("Master", {}).get("active") == 1 and statuses.get("Worker", {}).get("active") == 2


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    store = await Store.open(tmp_path / "store.db")
    issuer = TokenIssuer(ec.generate_private_key(ec.SECP256R1()))
    api = ApiServer(store, authenticator=Authenticator(store, issuer, {}), authorizer=RbacAuthorizer(store))
    admin = Client(AsgiTransport(api, "admin", ["system:masters"]))
    for namespace in ("ns", "kubeflow"):
        await admin.create(NAMESPACES, {"metadata": {"name": namespace}})
    # What the namespace controller does: a pod needs its service account.
    await admin.create(SERVICEACCOUNTS, {"metadata": {"name": "default", "namespace": "ns"}})
    cluster_scoped = (
        "Namespace",
        "CustomResourceDefinition",
        "ClusterRole",
        "ClusterRoleBinding",
        "PriorityClass",
    )
    for obj in embedded_objects():
        group, _, version = obj["apiVersion"].rpartition("/")
        kind = obj["kind"]
        resource = Resource(
            group,
            version,
            kind.lower() + ("es" if kind.endswith("s") else "s"),
            kind,
            kind not in cluster_scoped,
        )
        await admin.apply(resource, obj, field_manager="install")
    world = World(api)
    yield world
    await world.close()
    await store.close()


async def test_a_job_converges_step_by_step(world: World) -> None:
    world.start()
    await world.admin.create(PYTORCHJOB.resource, make_job())
    await world.until("all running", world.all_running)
    assert await world.names(PODS) == await world.names(SERVICES) == ALL
    assert conditions(world.job) == [("Created", "True"), ("Running", "True")]
    service = await world.admin.get(SERVICES, "job-worker-1", "ns")
    assert service["spec"]["clusterIP"] == "None"
    assert service["metadata"]["ownerReferences"][0]["uid"] == world.job["metadata"]["uid"]
    assert service["spec"]["ports"][0]["port"] == 23456
    await world.kubelet.report("job-master-0", "Succeeded")
    await world.until("Succeeded", lambda: world.is_true("Succeeded"))
    assert conditions(world.job) == [("Created", "True"), ("Running", "False"), ("Succeeded", "True")]
    assert world.job["status"]["completionTime"]
    assert world.job["metadata"]["generation"] == 1, "the status is written, the spec is not"
    assert "restartPolicy" in world.job["spec"]["pytorchReplicaSpecs"]["Worker"]
    assert (
        "ports" not in world.job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    )
    await world.finish()
    events = {(e["reason"], e["message"], e["count"]) for e in (await world.admin.list(EVENTS, "ns")).items}
    assert {("SuccessfulCreatePod", f"Created pod: {name}", 1) for name in ALL} <= events
    assert ("PyTorchJobSucceeded", "PyTorchJob job is successfully completed.", 1) in events


async def test_a_failed_pod_is_replaced(world: World) -> None:
    world.start()
    await world.admin.create(PYTORCHJOB.resource, make_job())
    await world.until("all running", world.all_running)
    first = await world.admin.get(PODS, "job-worker-0", "ns")
    await world.kubelet.report("job-worker-0", "Failed", 1)
    await world.until("a second run", lambda: Counter(world.kubelet.runs)["job-worker-0"] == 2)
    await world.until("all running again", world.all_running)
    second = await world.admin.get(PODS, "job-worker-0", "ns")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    await world.until("Running", lambda: world.is_true("Running"))


async def test_suspend_and_resume(world: World) -> None:
    world.start()
    await world.admin.create(PYTORCHJOB.resource, make_job(suspend=True))
    await world.until("Suspended", lambda: world.is_true("Suspended"))
    assert await world.names(PODS) == []
    patch = {"spec": {"runPolicy": {"suspend": False}}}
    await world.admin.patch(PYTORCHJOB.resource, "job", "ns", patch)
    await world.until("all running", world.all_running)
    await world.admin.patch(PYTORCHJOB.resource, "job", "ns", {"spec": {"runPolicy": {"suspend": True}}})
    await world.until("no pods", lambda: not world.kubelet.pods.items())
    await world.until("Suspended", lambda: world.is_true("Suspended"))
    assert await world.names(SERVICES) == []


async def test_an_elastic_job_has_an_autoscaler_while_it_may_run(world: World) -> None:
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }
    job = make_job(master=False)
    job["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 4, "metrics": [metric]}
    world.start()
    await world.admin.create(PYTORCHJOB.resource, job)
    await world.until("two workers", lambda: len(world.kubelet.pods.items()) == 2)
    hpa = await world.admin.get(HORIZONTALPODAUTOSCALERS, "job", "ns")
    assert (hpa["spec"]["minReplicas"], hpa["spec"]["maxReplicas"]) == (1, 4)
    assert hpa["spec"]["scaleTargetRef"]["kind"] == "PyTorchJob"
    patch = {
        "spec": {"elasticPolicy": {"maxReplicas": 3}, "pytorchReplicaSpecs": {"Worker": {"replicas": 3}}}
    }
    await world.admin.patch(PYTORCHJOB.resource, "job", "ns", patch)
    await world.until("three workers", lambda: len(world.kubelet.pods.items()) == 3)
    hpa = await world.admin.get(HORIZONTALPODAUTOSCALERS, "job", "ns")
    assert hpa["spec"]["maxReplicas"] == 3
    await world.admin.patch(PYTORCHJOB.resource, "job", "ns", {"spec": {"runPolicy": {"suspend": True}}})
    await world.until("Suspended", lambda: world.is_true("Suspended"))
    with pytest.raises(ApiError, match="not found"):
        await world.admin.get(HORIZONTALPODAUTOSCALERS, "job", "ns")


async def test_a_finished_job_is_deleted_after_its_time(world: World) -> None:
    world.start()
    await world.admin.create(PYTORCHJOB.resource, make_job(workers=0, ttlSecondsAfterFinished=1))
    await world.until("running", lambda: world.is_true("Running"))
    await world.kubelet.report("job-master-0", "Succeeded")
    await world.until("deletion", lambda: not world.job)
    assert world.operator is not None
    await world.until(
        "the counter",
        lambda: world.operator is not None and world.operator.metrics.jobs("deleted", "ns", "pytorch") == 1,
    )


@pytest.mark.parametrize("after", [False, True], ids=["unsent", "unanswered"])
@pytest.mark.parametrize("number", [4, 5, 6, 7, 9, 12, 15, 18, 21])
async def test_killed_at_a_request_it_converges(world: World, number: int, after: bool) -> None:
    """A few points of the run; `test_operator_faults` has all of them on a model."""
    transport = KillingTransport(world.transport(), kill_at=number, after=after)
    world.start(transport)
    await world.admin.create(PYTORCHJOB.resource, make_job(cleanPodPolicy="All"))

    async def replace_when_dead() -> None:
        await transport.dead.wait()
        await world.kill()
        world.start()

    replacing = asyncio.create_task(replace_when_dead())
    await world.until("all running", world.all_running)
    await world.kubelet.report("job-master-0", "Succeeded")
    await world.until("Succeeded", lambda: world.is_true("Succeeded"))
    await world.until("clean-up", lambda: not world.kubelet.pods.items())
    await asyncio.wait_for(replacing, DEADLINE)
    assert await world.names(SERVICES) == []
    assert Counter(world.kubelet.runs) == dict.fromkeys(ALL, 1)


async def test_an_informer_in_process_sees_a_write_within_milliseconds(world: World) -> None:
    seen: dict[str, float] = {}

    def note(kind: str, old: Object | None, new: Object) -> None:
        seen[new["metadata"]["resourceVersion"]] = time.perf_counter()

    await world.jobs.wait_synced(DEADLINE)
    world.jobs.add_handler(note)
    delays = []
    job = await world.admin.create(PYTORCHJOB.resource, make_job(suspend=True))
    for number in range(30):
        patch = {"metadata": {"labels": {"number": str(number)}}}
        job = await world.admin.patch(PYTORCHJOB.resource, "job", "ns", patch)
        written = time.perf_counter()
        version = job["metadata"]["resourceVersion"]
        await world.until("the event", lambda version=version: version in seen)  # type: ignore[misc]
        delays.append(seen[version] - written)
    assert sorted(delays)[len(delays) // 2] < 0.02, delays


async def test_a_watch_left_early_leaves_nothing_open(world: World) -> None:
    transport = world.admin.transport
    assert isinstance(transport, AsgiTransport)
    await world.jobs.wait_synced(DEADLINE)
    await world.kubelet.pods.wait_synced(DEADLINE)
    await world.until("the two watches", lambda: len(transport._running) == 2)
    async with aclosing(world.admin.watch(PYTORCHJOB.resource)) as events:
        await world.admin.create(PYTORCHJOB.resource, make_job(suspend=True))
        assert (await asyncio.wait_for(anext(events), DEADLINE)).type == "ADDED"
        assert len(transport._running) == 3
    await world.until("the third watch closed", lambda: len(transport._running) == 2)
