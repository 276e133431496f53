"""Following jobs on a terminal or into a pipe, to their end, and reporting how they ended."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence

from rich.markup import escape

from trainshed.cli.console import err, note, out, say_hint
from trainshed.cli.view import LiveView, PartOf, PlainView
from trainshed.client.client import Client
from trainshed.kube.meta.objects import name_of, namespace_of
from trainshed.sdk import local
from trainshed.sdk import state as jobstate
from trainshed.sdk.connection import Target
from trainshed.sdk.errors import REFUSED
from trainshed.sdk.follow import API_LOST, Follower
from trainshed.sdk.followview import Outcome, View
from trainshed.sdk.jobs import Found
from trainshed.sdk.summary import failure_of, remedy_of, success_of


async def follow_all(client: Client, target: Target, found: Sequence[Found]) -> int:
    """Follow the jobs, all at once, to their end; return the exit code. The first Ctrl-C detaches."""
    names = _labels(found)
    width = max(_width(job, name if len(found) > 1 else "") for job, name in zip(found, names))
    with LiveView(out, width) if out.is_terminal else PlainView(out, err, width) as view:
        parts: list[View] = [PartOf(view, name) for name in names] if len(found) > 1 else [view]
        outcomes = await _outcomes(client, target, found, parts, view.leave)
    if outcomes is None:
        for job in found:
            note(
                f"\ndetached: {job.obj['kind']} {escape(name_of(job.obj))} goes on\n"
                + how_to_go_on(job, target)
            )
        return 0
    return max([await _report(client, job, outcome) for job, outcome in zip(found, outcomes)])


async def _outcomes(
    client: Client, target: Target, found: Sequence[Found], views: Sequence[View], leave: Callable[[], None]
) -> list[Outcome] | None:
    """Return how the jobs ended, None when Ctrl-C came first, of which `leave` is told at once."""
    followers = [
        asyncio.create_task(
            Follower(client, job.resource, job.obj, view, why_lost=lambda: why_lost(target)).run()
        )
        for job, view in zip(found, views)
    ]
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        interrupted = True
        leave()
        for follower in followers:
            follower.cancel()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        return list(await asyncio.gather(*followers))
    except asyncio.CancelledError:
        if not interrupted:
            raise
        return None
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)


def why_lost(target: Target) -> str:
    """Return what it means that no API server answers: of the local cluster it is known whether it was stopped."""
    if target.is_local and not local.status(target.paths).processes:
        return "the cluster was stopped, and with it the job's pods; trainshed up starts it again"
    return API_LOST


async def _report(client: Client, job: Found, outcome: Outcome) -> int:
    if outcome.job is None:
        note(f"{job.obj['kind']} {escape(name_of(job.obj))} was deleted")
        return REFUSED
    if jobstate.condition(outcome.job, "Succeeded"):
        for line in (await success_of(client, outcome)).lines():
            out.out(line, highlight=False)
        return 0
    failure = failure_of(outcome)
    for line in failure.lines():
        err.out(line, highlight=False)
    say_hint(await remedy_of(client, outcome, failure))
    return REFUSED


def how_to_go_on(job: Found, target: Target) -> str:
    """Return the commands that are of use for a job that runs, one a line."""
    where = f"{job.resource.kind.lower()}/{name_of(job.obj)} -n {namespace_of(job.obj)}{target.flags}"
    return "\n".join(
        f"  {verb:<8} trainshed {verb} {where}" for verb in ("follow", "logs", "suspend", "resume", "delete")
    )


def _labels(found: Sequence[Found]) -> list[str]:
    """Return the shortest names that tell the jobs apart."""
    names = [name_of(job.obj) for job in found]
    if len(set(names)) == len(names):
        return names
    return [f"{job.resource.kind.lower()}/{namespace_of(job.obj)}/{name}" for job, name in zip(found, names)]


def _width(job: Found, label: str) -> int:
    return jobstate.longest_replica_name(job.obj) + (len(label) + 1 if label else 0)
