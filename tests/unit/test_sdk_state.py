"""What every face reads from a job and its pods."""

from __future__ import annotations

import pytest

from tests.fakes.api import FakeApi
from tests.fakes.virtual_time import run_virtual
from trainshed.api.registry import KINDS
from trainshed.client.client import Client
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.times import format_time
from trainshed.sdk import state
from trainshed.sdk.jobs import Event, Found, events_of, sources_of
from trainshed.testing.builders import make_job, make_pod, make_replica

LABELS = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "1"}


@pytest.mark.parametrize(
    ("spec", "count"),
    [({"replicas": 3}, 3), ({"replicas": 0}, 0), ({}, 1), (None, 1), ({"replicas": "x"}, 1)],
)
def test_a_type_that_does_not_say_has_one_replica(spec: object, count: int) -> None:
    assert state.replica_count(spec) == count


@pytest.mark.parametrize(("workers", "longest"), [(None, "worker-0"), (10, "worker-9"), (11, "worker-10")])
def test_the_longest_name_of_a_replica(workers: int | None, longest: str) -> None:
    job = make_job("a", 1, make_replica(workers))
    assert state.longest_replica_name(job) == len(longest)


def test_logs_of_the_job_s_own_init_containers_are_told_apart() -> None:
    job = make_job("a", 1)
    (spec,) = (replica["template"]["spec"] for replica in state.replica_specs(job).values())
    spec["initContainers"] = [{"name": "fetch", "image": "i:1"}]
    pod = make_pod("a-worker-1", labels=LABELS)
    pod["metadata"]["namespace"] = "ns"
    started: Object = {"state": {"running": {}}, "restartCount": 0}
    pod["status"] = {
        "initContainerStatuses": [{"name": "fetch", **started}, {"name": "added-by-the-operator", **started}],
        "containerStatuses": [{"name": "main", **started}],
    }
    found = sources_of(Found(KINDS[job["kind"]].resource, job), [pod])
    assert [(source.replica, source.container) for source in found] == [
        ("worker-1/fetch", "fetch"),
        ("worker-1", "main"),
    ]


def test_containers_that_have_no_count_have_not_restarted() -> None:
    pod = make_pod("a-worker-1", labels=LABELS)
    pod["status"] = {
        "phase": "Pending",
        "containerStatuses": [{"name": "main"}, {"name": "b", "restartCount": 2}],
    }
    assert (state.replica(pod).name, state.replica(pod).restarts) == ("worker-1", 2)


def test_events_of_a_job_and_its_pods_come_in_order_of_time() -> None:
    async def main() -> None:
        api = FakeApi()
        for number, (uid, time) in enumerate((("job", 3), ("pod", 1), ("other", 2), ("job", 2))):
            await api.put(
                f"/api/v1/namespaces/ns/events/e{number}",
                involvedObject={"uid": uid, "kind": "Pod", "name": uid},
                lastTimestamp=format_time(1_700_000_000.0 + time),
                type="Normal",
                reason=f"R{number}",
                message="m",
            )
        job = {"metadata": {"name": "a", "namespace": "ns", "uid": "job"}}
        found = await events_of(Client(api), job, [{"metadata": {"uid": "pod"}}])
        assert [event.reason for event in found] == ["R1", "R3", "R0"]
        assert found[0] == Event(format_time(1_700_000_001.0), "Normal", "R1", "m", "Pod/pod")

    run_virtual(main())
