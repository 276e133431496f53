"""The API server's figures, on an embedded cluster and on any other server given beside it, in one run.

    python -m bench.apiserver                          all figures, on a cluster of its own
    python -m bench.apiserver --beside KUBECONFIG      the same load on that server, in turns, and the ratios
    python -m bench.apiserver --rounds 5 --pods 10000 --only creates lists

Every figure is taken `--rounds` times: medians and 99th percentiles over the requests of a round, then the median of
the rounds and their spread. TLS on loopback, `synchronous=FULL`. The clients are in this process and speak HTTP/1.1
over sockets of their own. Pods have a scheduling gate: nothing else happens to them than is measured. Those of the
figure for pods that wait ask for a node that is not there: our scheduler says so of each, in a status and an event;
beside a server alone nobody does.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.apiload import Api, Watching, listed, pod, waiting_pod
from bench.apistart import seconds_to_ready, third_party
from bench.cluster import cluster, installed_environment, status
from trainshed.cluster.control.launcher import rss_bytes

CLIENTS = 8
IDLE_WATCHES = 1_000


class Goal(NamedTuple):
    """What a figure is held against."""

    text: str
    unit: str
    bound: float
    higher: bool = False


GOALS = {
    "create/s": Goal("creates a second, 8 clients and a watcher", "/s", 1_000, higher=True),
    "create p99": Goal("a create, 99th percentile", "ms", 30),
    "waiting/s": Goal("the same creates, of pods that wait for a node", "/s", 1_000, higher=True),
    "get p99": Goal("a GET, 99th percentile", "ms", 2),
    "list": Goal("a list of all pods, median", "ms", 130),
    "delayed": Goal("how long another's GET waits at most beside lists", "ms", 30),
    "label": Goal("a list by a label that 1 % have, median", "ms", 5),
    "event p99": Goal("a watch event after its write was sent, 1 watcher, 99th percentile", "ms", 20),
    "event100 p99": Goal("a watch event after its write was sent, 100 watchers, 99th percentile", "ms", 100),
    "watches": Goal("memory of 1,000 idle watches", "MB", 60),
    "cold start": Goal("start to /readyz, over an interpreter with the same imports", "x", 2.5),
}
Measured = dict[str, float]


def p99(values: Sequence[float]) -> float:
    """Return the 99th percentile of seconds in milliseconds."""
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))] * 1000


def median(values: Sequence[float]) -> float:
    """Return the median of seconds in milliseconds."""
    return statistics.median(values) * 1000


async def creates(api: Api, count: int) -> Measured:
    """Create pods from eight clients while one watches them, and delete them."""
    rate, took = await _created(api, count, pod)
    return {"create/s": rate, "create p99": p99(took)}


async def waiting(api: Api, count: int) -> Measured:
    """Do the same with pods that the scheduler has to explain."""
    rate, _ = await _created(api, count, waiting_pod)
    return {"waiting/s": rate}


async def _created(api: Api, count: int, make: Callable[[str], dict[str, Any]]) -> tuple[float, list[float]]:
    """Return the rate, and how long each took."""
    took: list[float] = []
    left = iter(range(count))

    async def client() -> None:
        async with api.connection() as connection:
            for number in left:
                began = time.perf_counter()
                await connection.create(make(f"create-{number}"))
                took.append(time.perf_counter() - began)

    async with Watching(api, 1) as watching:
        began = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(CLIENTS)))
        seconds = time.perf_counter() - began
        await watching.seen(count)
    await api.delete_all()
    return count / seconds, took


async def gets(api: Api, count: int) -> Measured:
    """Get one pod over and over."""
    took = []
    async with api.connection() as connection:
        await connection.create(pod("get"))
        for _ in range(count):
            began = time.perf_counter()
            await connection.get("get")
            took.append(time.perf_counter() - began)
    await api.delete_all()
    return {"get p99": p99(took)}


async def events(api: Api, count: int) -> Measured:
    """Create pods one after the other before one watcher, then before a hundred."""
    out = {}
    for figure, watchers in (("event p99", 1), ("event100 p99", 100)):
        async with Watching(api, watchers) as watching, api.connection() as connection:
            for number in range(count):
                watching.sent(f"event-{number}", time.perf_counter())
                await connection.create(pod(f"event-{number}"))
            await watching.seen(count)
            out[figure] = p99(watching.late())
        await api.delete_all()
    return out


async def lists(api: Api, count: int) -> Measured:
    """List many pods, all and one in a hundred, while somebody else gets one of them."""
    left = iter(range(count))

    async def fill() -> None:
        async with api.connection() as connection:
            for number in left:
                await connection.create(pod(f"list-{number}", part=str(number % 100)))

    await asyncio.gather(*(fill() for _ in range(CLIENTS)))
    waited = []
    listing = asyncio.create_task(listed(api))
    async with api.connection() as connection:
        while not listing.done():
            began = time.perf_counter()
            await connection.get("list-1")
            waited.append(time.perf_counter() - began)
            await asyncio.sleep(0.002)
    whole, some = await listing
    await api.delete_all()
    return {"list": median(whole), "label": median(some), "delayed": max(waited) * 1000}


async def watches(api: Api, count: int) -> Measured:
    """Open watches on which nothing happens, and see what the server takes for them."""
    if api.pid is None:
        return {}
    before = rss_bytes(api.pid)
    async with Watching(api, count):
        await asyncio.sleep(2)
        return {"watches": (rss_bytes(api.pid) - before) / 1e6}


async def cold_start(api: Api, count: int) -> Measured:
    """Start a server on an empty directory, and an interpreter that imports what it imports from others."""
    if api.pid is None:
        return {}
    return {"cold start": await asyncio.to_thread(_cold_start)}


def _cold_start() -> float:
    modules = third_party()
    seconds_to_ready()  # byte code and page cache are there from now on
    baseline, served = [], []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", f"import {', '.join(modules)}"], env=installed_environment(), check=True
        )
        baseline.append(time.perf_counter() - began)
        served.append(seconds_to_ready())
    return statistics.median(served) / statistics.median(baseline)


MEASURES: dict[str, tuple[Callable[[Api, int], Awaitable[Measured]], int]] = {
    "creates": (creates, 2_000),
    "waiting": (waiting, 2_000),
    "gets": (gets, 1_000),
    "events": (events, 200),
    "watches": (watches, IDLE_WATCHES),
    "lists": (lists, 10_000),
    "start": (cold_start, 0),
}


@asynccontextmanager
async def servers(beside: Path | None) -> AsyncIterator[dict[str, Api]]:
    """Yield the servers under load by name: a fresh cluster, and the one of a kubeconfig."""
    with cluster() as home:
        found = {"embedded": Api(home / "kubeconfig", pid=status(home)["pid"])}
        if beside is not None:
            found["beside"] = Api(beside)
        for api in found.values():
            await api.prepare()
        yield found


async def measure(arguments: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    """Return the figures of each server, a list of as many as there were rounds."""
    out: dict[str, dict[str, list[float]]] = {}
    async with servers(arguments.beside) as found:
        for number in range(arguments.rounds):
            for name in arguments.only or MEASURES:
                what, count = MEASURES[name]
                if name == "lists":
                    count = arguments.pods
                for server, api in found.items():
                    for figure, value in (await what(api, count)).items():
                        out.setdefault(server, {}).setdefault(figure, []).append(value)
                print(f"round {number + 1}: {name}", file=sys.stderr, flush=True)
    return out


def table(found: dict[str, dict[str, list[float]]]) -> str:
    """Return the figures as a Markdown table, with ratios where another server was measured beside ours."""
    ours, theirs = found["embedded"], found.get("beside", {})
    rows = [
        "| figure | bar | median of rounds | spread | met | the other server | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, goal in GOALS.items():
        if name not in ours:
            continue
        value = statistics.median(ours[name])
        met = value >= goal.bound if goal.higher else value <= goal.bound
        other = statistics.median(theirs[name]) if name in theirs else None
        rows.append(
            f"| {goal.text} | {'≥' if goal.higher else '≤'} {goal.bound:g} {goal.unit} | {value:.3g} {goal.unit} |"
            f" {min(ours[name]):.3g} – {max(ours[name]):.3g} | {'yes' if met else 'no'} |"
            + (f" {other:.3g} {goal.unit} | {value / other:.2f} |" if other else " | |")
        )
    return "\n".join(rows)


def main() -> None:
    """See the head of this file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--beside", type=Path, help="kubeconfig of another server, with a token or certificates"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--only", nargs="+", choices=MEASURES)
    print(table(asyncio.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
