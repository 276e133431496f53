"""Events: repeats raise a count, order is kept, outages and restarts lose nothing, callers never wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fakes.api import FakeApi
from tests.fakes.virtual_time import run_virtual
from trainshed.client import events as client_events
from trainshed.client.client import Client
from trainshed.client.events import EventRecorder
from trainshed.kube.meta.errors import forbidden

JOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "job", "namespace": "ns", "uid": "u1", "resourceVersion": "5"},
}


def events(api: FakeApi) -> list[tuple[str, str, int]]:
    """Return (reason, message, count) of every event, in the order in which they were created."""
    found = [obj for path, obj in api.objects.items() if "/events/" in path]
    return [(e["reason"], e["message"], e["count"]) for e in found]


async def eventually(expected: Any, api: FakeApi, seconds: int = 60) -> None:
    for _ in range(seconds):
        if events(api) == expected:
            return
        await asyncio.sleep(1)
    assert events(api) == expected


def test_repeats_are_counted_in_one_object() -> None:
    async def main() -> None:
        api = FakeApi()
        recorder = EventRecorder(Client(api), "controller", now=lambda: 1_700_000_000.5)
        recorder.event(JOB, "Normal", "Created", "pod a")
        recorder.event(JOB, "Warning", "Failed", "pod b")
        recorder.event(JOB, "Normal", "Created", "pod a")
        await eventually([("Created", "pod a", 2), ("Failed", "pod b", 1)], api)
        writes = len(api.calls)
        for _ in range(100):
            recorder.event(JOB, "Normal", "Created", "pod a")
        await eventually([("Created", "pod a", 102), ("Failed", "pod b", 1)], api)
        assert len(api.calls) == writes + 1, "a burst of repeats costs one write"
        event = next(o for p, o in api.objects.items() if "/events/" in p)
        assert event["involvedObject"] == {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "name": "job",
            "namespace": "ns",
            "uid": "u1",
            "resourceVersion": "5",
        }
        assert event["source"] == {"component": "controller"}
        assert (event["type"], event["firstTimestamp"]) == ("Normal", "2023-11-14T22:13:20Z")
        assert event["metadata"]["namespace"] == "ns"
        await recorder.close()

    run_virtual(main())


def test_an_outage_delays_and_keeps_the_order() -> None:
    async def main() -> None:
        api = FakeApi()
        api.fail_requests = 5
        recorder = EventRecorder(Client(api), "controller")
        for number in range(4):
            recorder.event(JOB, "Normal", "Step", str(number))
        await eventually([("Step", str(n), 1) for n in range(4)], api)
        await recorder.close()

    run_virtual(main())


def test_a_restarted_process_goes_on_counting() -> None:
    async def main() -> None:
        api = FakeApi()
        for _ in range(2):
            recorder = EventRecorder(Client(api), "controller")
            recorder.event(JOB, "Normal", "Created", "pod a")
            await recorder.close()
        assert events(api) == [("Created", "pod a", 2)]

    run_virtual(main())


def test_what_is_written_is_not_kept() -> None:
    async def main() -> None:
        api = FakeApi()
        recorder = EventRecorder(Client(api), "controller")
        recorder.event(JOB, "Normal", "Created", "pod a")
        (series,) = recorder._series.values()
        assert series.encoded, "it is not written yet"
        await eventually([("Created", "pod a", 1)], api)
        assert not series.encoded
        recorder.event(JOB, "Normal", "Created", "pod a")
        await eventually([("Created", "pod a", 2)], api)
        assert not series.encoded
        await recorder.close()

    run_virtual(main())


def test_an_expired_event_is_written_anew() -> None:
    async def main() -> None:
        api = FakeApi()
        recorder = EventRecorder(Client(api), "controller")
        recorder.event(JOB, "Normal", "Created", "pod a")
        await eventually([("Created", "pod a", 1)], api)
        await api.remove(next(path for path in api.objects if "/events/" in path))
        recorder.event(JOB, "Normal", "Created", "pod a")
        await eventually([("Created", "pod a", 1)], api)
        await recorder.close()

    run_virtual(main())


def test_close_writes_what_waits_and_gives_up_in_time() -> None:
    async def main() -> None:
        api = FakeApi()
        recorder = EventRecorder(Client(api), "controller")
        recorder.event(JOB, "Normal", "A", "first")
        await eventually([("A", "first", 1)], api)
        recorder.event(JOB, "Normal", "A", "first")  # would wait for its interval
        await recorder.close()
        assert events(api) == [("A", "first", 2)]
        api.fail_requests = 10_000
        stuck = EventRecorder(Client(api), "controller")
        stuck.event(JOB, "Normal", "B", "never")
        started = asyncio.get_running_loop().time()
        await stuck.close(timeout=3)
        assert asyncio.get_running_loop().time() - started <= 3

    run_virtual(main())


def test_names_sort_in_the_order_of_events_of_one_second() -> None:
    async def main() -> None:
        api = FakeApi()
        recorder = EventRecorder(Client(api), "controller", now=lambda: 1_700_000_000.0)
        other = EventRecorder(Client(api), "other", now=lambda: 1_700_000_000.0)
        for step in ("Scheduled", "Created", "Started", "Backoff"):
            recorder.event(JOB, "Normal", step, "text")
        other.event(JOB, "Normal", "Other", "at the same instant")
        await recorder.close()
        await other.close()
        named = sorted((path, obj["reason"]) for path, obj in api.objects.items() if "/events/" in path)
        assert [reason for _, reason in named if reason != "Other"] == [
            "Scheduled",
            "Created",
            "Started",
            "Backoff",
        ]
        assert len(named) == 5

    run_virtual(main())


def test_earlier_events_are_looked_for_only_when_there_can_be_any() -> None:
    async def main() -> None:
        api = FakeApi()
        recorder = EventRecorder(Client(api), "controller", now=lambda: 1_700_000_000.0)
        young = {**JOB, "metadata": {**JOB["metadata"], "creationTimestamp": "2023-11-14T22:13:21Z"}}
        recorder.event(young, "Normal", "A", "1")
        recorder.event(young, "Normal", "A", "2")
        await recorder.close()
        assert len(api.calls) == 2
        recorder = EventRecorder(Client(api), "controller", now=lambda: 1_700_000_060.0)
        recorder.event(young, "Normal", "A", "1")
        recorder.event(young, "Normal", "A", "3")
        await recorder.close()
        assert len(api.calls) == 5, "one list for the object, one patch, one create"
        assert sorted(events(api)) == [("A", "1", 2), ("A", "2", 1), ("A", "3", 1)]

    run_virtual(main())


def test_without_permission_to_look_events_are_still_written() -> None:
    class NoList(FakeApi):
        def _list(self, path: str, query: dict[str, str]) -> Any:
            raise forbidden("events", "", "", "no rule allows it")

    async def main() -> None:
        api = NoList()
        recorder = EventRecorder(Client(api), "controller")
        recorder.event(JOB, "Normal", "Created", "pod a")
        await recorder.close()
        assert events(api) == [("Created", "pod a", 1)]

    run_virtual(main())


def test_events_that_are_dropped_are_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        recorder = EventRecorder(Client(FakeApi()), "controller")
        for number in range(5):
            recorder.event(JOB, "Normal", "A", str(number))
            assert len(caplog.records) == (number > 1), "with the first of them"
        assert recorder.dropped == 3
        await recorder.close()

    monkeypatch.setattr(client_events, "REMEMBERED", 2)
    run_virtual(main())
    assert [record.message for record in caplog.records] == ["events dropped: too many wait"]


def test_what_earlier_processes_told_is_forgotten_of_the_oldest_object_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        api = FakeApi()
        recorder = EventRecorder(Client(api), "controller")
        for number in range(2):
            job = {**JOB, "metadata": {**JOB["metadata"], "uid": f"u{number}"}}
            recorder.event(job, "Normal", "A", str(number))
            await eventually([("A", str(each), 1) for each in range(number + 1)], api)
        await recorder.close()

    monkeypatch.setattr(client_events, "REMEMBERED", 1)
    run_virtual(main())


def test_the_tenth_of_events_that_differ_by_their_message_alone_stands_for_all_further_ones() -> None:
    """As kube-controller-manager 1.33 tells of thirteen pods of one ReplicaSet."""

    async def main() -> None:
        api = FakeApi()
        times = [1_700_000_000.0]
        recorder = EventRecorder(Client(api), "controller", now=lambda: times[0])
        for number in range(13):
            recorder.event(JOB, "Normal", "Created", f"pod {number}")
        single = [("Created", f"pod {number}", 1) for number in range(9)]
        await eventually([*single, ("Created", "(combined from similar events): pod 12", 4)], api)
        recorder.event(JOB, "Normal", "Created", "pod 13")
        recorder.event(JOB, "Normal", "Created", "pod 3")
        recorder.event(JOB, "Warning", "Created", "another type")
        single[3] = ("Created", "pod 3", 2)
        both = [("Created", "(combined from similar events): pod 13", 5), ("Created", "another type", 1)]
        await eventually([*single, *both], api)
        combined = next(o for p, o in api.objects.items() if "/events/" in p and "combined" in o["message"])
        assert not combined.get("reportingComponent") and combined["source"] == {"component": "controller"}
        times[0] += 601
        recorder.event(JOB, "Normal", "Created", "pod 14")
        await eventually([*single, *both, ("Created", "pod 14", 1)], api)
        await recorder.close()

    run_virtual(main())
