"""`trainshed logs`: what the replicas of a job have printed, merged by time."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from typing import Annotated

import typer

from trainshed.cli.completion import complete_replica
from trainshed.cli.console import out, user_errors
from trainshed.cli.options import Context, JobName, Kubeconfig, Namespace
from trainshed.cli.view import PlainView
from trainshed.client.client import Client
from trainshed.sdk import jobs
from trainshed.sdk import state as jobstate
from trainshed.sdk.connection import Target, connected
from trainshed.sdk.follow import Follower
from trainshed.sdk.jobs import Found, of_replica, sources_of
from trainshed.sdk.logs import merged


def logs(
    name: JobName,
    replica: Annotated[
        str | None,
        typer.Argument(
            metavar="[REPLICA]",
            help="Of this replica only, such as worker-0.",
            autocompletion=complete_replica,
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job is finished.")] = False,
    tail: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only the last N lines of each replica.")
    ] = None,
    no_prefix: Annotated[bool, typer.Option("--no-prefix", help="Lines without the replica's name.")] = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Print what replicas of a job have printed, merged by time.

    Without `trainshed follow`'s panel and notices. Lines are passed on as they are; a terminal gets their colours, and
    no other control sequences.
    """

    async def main() -> None:
        async with connected(Target(kubeconfig, context, namespace)) as client:
            job = await jobs.find(client, name)
            pods = of_replica(job, await jobs.pods_of(client, job.obj), replica)
            width = 0 if replica else jobstate.longest_replica_name(job.obj)
            with PlainView(out, None, width, prefixes=not no_prefix) as view:
                if follow:
                    await _follow(client, job, _OneReplica(view, replica), tail)
                    return
                async for which, lines in merged(client, sources_of(job, pods), tail=tail):
                    await view.lines(which, lines)

    with user_errors():
        asyncio.run(main())


async def _follow(client: Client, job: Found, view: _OneReplica, tail: int | None) -> None:
    """Follow to the job's end, or Ctrl-C."""
    following = asyncio.create_task(Follower(client, job.resource, job.obj, view, tail=tail).run())
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        view.shown.leave()
        following.cancel()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        await asyncio.wait([following])
        if not following.cancelled():
            following.result()
    finally:
        loop.remove_signal_handler(signal.SIGINT)


class _OneReplica:
    """Lets through the lines of one replica, or of all when none is named; nothing else."""

    def __init__(self, view: PlainView, replica: str | None) -> None:
        self.shown = view
        self._replica = replica

    async def lines(self, replica: str, lines: Sequence[str]) -> None:
        if self._replica in (None, replica.partition("/")[0]):
            await self.shown.lines(replica, lines)

    def frame(self, replica: str, text: str) -> None:
        return

    def update(self, snapshot: object) -> None:
        return

    def event(self, text: str) -> None:
        return
