"""A handle of one training job: what was seen of it last, and what can be done with it.

JobView            facts, read from what was seen last; pure
├─ AsyncJob        verbs that look at the cluster or change it (this file)
└─ blocking.Job    the same verbs, waiting for their result
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Self, TypeAlias

import msgspec

from trainshed.kube.meta.objects import Object, copy_tree, name_of, namespace_of
from trainshed.sdk import display, jobs
from trainshed.sdk import state as jobstate
from trainshed.sdk.errors import JobFailed, UserError
from trainshed.sdk.follow import Follower
from trainshed.sdk.followview import Outcome, Snapshot
from trainshed.sdk.jobs import Event, Found, LogLine
from trainshed.sdk.progress import Progress
from trainshed.sdk.state import Condition, Replica
from trainshed.sdk.summary import Success, failure_of, success_of

if TYPE_CHECKING:
    from trainshed.sdk.cluster import AsyncCluster

KEPT_LINES = 8
"""How many of each replica's last lines a notebook shows."""


class Seen(msgspec.Struct, frozen=True):
    """What was seen of a job last. `tails` holds the last log lines by replica, as far as they were read."""

    found: Found
    pods: tuple[Object, ...] = ()
    progress: Progress = Progress()
    tails: dict[str, list[str]] = {}
    is_gone: bool = False


class Notice(msgspec.Struct, frozen=True):
    """Something worth a line of its own while a job is followed: a condition, a restart, why a replica waits."""

    text: str

    def __str__(self) -> str:
        return f"» {self.text}"


LineHandler: TypeAlias = Callable[[LogLine], object]
NoticeHandler: TypeAlias = Callable[[Notice], object]


class JobView:
    """A job as it was seen last: by `refresh`, `wait`, `progress` or `run`. A notebook shows it as a table."""

    _seen: Seen

    @property
    def name(self) -> str:
        """Name of the job."""
        return name_of(self._seen.found.obj)

    @property
    def namespace(self) -> str:
        """Namespace of the job."""
        return namespace_of(self._seen.found.obj)

    @property
    def kind(self) -> str:
        """Kind of the job, e.g. `PyTorchJob`."""
        return self._seen.found.resource.kind

    @property
    def state(self) -> str:
        """The type of the last condition that holds: `Created`, `Running`, `Suspended`, `Succeeded`, `Failed` …

        `Pending` before any holds, `Gone` once the job is known to be deleted.
        """
        return "Gone" if self._seen.is_gone else jobstate.state_of(self._seen.found.obj)

    @property
    def is_finished(self) -> bool:
        """Whether the job has succeeded or failed."""
        return jobstate.is_finished(self._seen.found.obj)

    @property
    def conditions(self) -> list[Condition]:
        """The job's conditions, the latest change last."""
        return jobstate.conditions_of(self._seen.found.obj)

    @property
    def replicas(self) -> list[Replica]:
        """The job's pods in the order of their ranks, with the reason when one waits or failed."""
        return [jobstate.replica(pod) for pod in self._seen.pods]

    @property
    def manifest(self) -> Object:
        """A copy of the whole object, as the API server returned it."""
        copied: Object = copy_tree(self._seen.found.obj)
        return copied

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.kind} {self.namespace}/{self.name}: {self.state}>"

    def _repr_html_(self) -> str:
        return display.job_html(
            display.JobFacts(
                self.kind,
                self.namespace,
                self.name,
                self.state,
                jobstate.true_condition(self._seen.found.obj).get("message", ""),
                self.replicas,
                self._seen.progress,
                self._seen.tails,
            )
        )


class AsyncJob(JobView):
    """One training job, for asynchronous callers. Made by `AsyncCluster.job`, `jobs` and `run`.

    Its facts are those that were seen last, by `refresh`, `wait`, `progress` or `run`.

    Example:
        from trainshed import AsyncCluster

        async with AsyncCluster() as cluster:
            job = await cluster.run("job.yaml", wait=False)
            async for line in job.logs("master-0", follow=True):
                print(line.replica, line.text)
            await job.delete()
    """

    def __init__(self, cluster: AsyncCluster, found: Found) -> None:
        self._cluster = cluster
        self._seen = Seen(found)

    async def refresh(self) -> Self:
        """Look at the job and its pods again; return the job.

        Raises:
            ApiError: 404 when the job is gone.
        """
        client = self._cluster.client
        found = self._seen.found
        obj = await client.get(found.resource, self.name, self.namespace)
        pods = await jobs.pods_of(client, obj)
        self._see(found=Found(found.resource, obj), pods=tuple(pods))
        return self

    async def progress(self) -> Progress:
        """Return how far the job is by what its first replica that tells has printed: epoch, loss, accuracy."""
        await self.refresh()
        client = self._cluster.client
        progress = await jobs.progress_of(client, self._seen.found.obj, self._seen.pods)
        self._see(progress=progress)
        return progress

    async def logs(
        self, replica: str | None = None, *, tail: int | None = None, follow: bool = False
    ) -> AsyncGenerator[LogLine, None]:
        """Yield what the replicas have printed: of one, such as `worker-0`, or of all in the order of their ranks.

        Args:
            replica: name of a replica or of its pod.
            tail: only the last so many lines of each.
            follow: go on with new lines, in the order of their arrival, until the job is finished. Lines wait in
                memory until they are read.

        Raises:
            UserError: the job has no such replica.
        """
        if follow:
            async with aclosing(self._follow(tail=tail)) as items:
                async for item in items:
                    if isinstance(item, LogLine) and self._is_of(item, replica):
                        yield item
            return
        await self.refresh()
        for pod in self._pods_named(replica):
            async with aclosing(jobs.logs_of(self._cluster.client, pod, tail=tail)) as lines:
                async for line in lines:
                    yield line

    async def wait(
        self,
        timeout: float | None = None,
        *,
        check: bool = True,
        on_line: LineHandler | None = None,
        on_notice: NoticeHandler | None = None,
    ) -> Self:
        """Wait until the job is finished; return it.

        Args:
            timeout: how many seconds to wait at most; the job goes on after that.
            check: raise when the job has failed.
            on_line: called with each line that a replica prints, e.g. `print`.
            on_notice: called with what happens: a condition, a restart, why a replica waits.

        Raises:
            JobFailed: with the replica that failed first and its last lines.
            TimeoutError: the job was not finished in time.
            UserError: the job was deleted meanwhile.
        """
        async with aclosing(self._follow(timeout=timeout)) as items:
            async for item in items:
                hand_out(item, on_line, on_notice)
        self._conclude(check)
        return self

    async def result(self) -> Success:
        """Return what the succeeded job produced: time, accuracy, loss, and checkpoints on claims of this machine.

        Raises:
            UserError: the job has not succeeded.
        """
        await self.progress()
        if self.state != "Succeeded":
            raise UserError(f"{self._label} has not succeeded but is {self.state}")
        return await success_of(self._cluster.client, self._outcome())

    async def events(self) -> list[Event]:
        """Return the events about the job and its pods, the oldest first."""
        await self.refresh()
        return await jobs.events_of(self._cluster.client, self._seen.found.obj, self._seen.pods)

    async def suspend(self) -> Self:
        """Suspend the job: its pods are deleted, the job stays. Raises UserError when it is finished."""
        return await self._set_suspend(True)

    async def resume(self) -> Self:
        """Resume the suspended job: its pods are created again. Raises UserError when it is finished."""
        return await self._set_suspend(False)

    async def delete(self, *, wait: bool = True) -> None:
        """Delete the job and its pods; with `wait`, return when they are gone. Claims stay.

        Raises:
            ApiError: 404 when the job is gone already.
            UserError: it is still there after a minute.
        """
        await jobs.delete(self._cluster.client, self._seen.found, wait=wait)
        if wait:
            self._see(is_gone=True, pods=())

    async def _look(self) -> None:
        """Refresh everything that a notebook shows."""
        await self.progress()
        tails = {}
        for pod in self._seen.pods:
            async with aclosing(jobs.logs_of(self._cluster.client, pod, tail=KEPT_LINES)) as lines:
                tails[jobstate.replica_name(pod)] = [line.text async for line in lines]
        self._see(tails=tails)

    async def _follow(
        self, *, timeout: float | None = None, tail: int | None = None
    ) -> AsyncGenerator[LogLine | Notice, None]:
        """Yield lines and notices until the job is finished or gone, then remember how it ended."""
        await self.refresh()
        queue: asyncio.Queue[LogLine | Notice | None] = asyncio.Queue()
        found = self._seen.found
        follower = Follower(self._cluster.client, found.resource, found.obj, _Queued(queue), tail=tail)
        following = asyncio.create_task(follower.run())
        following.add_done_callback(lambda _: queue.put_nowait(None))
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        try:
            while True:
                left = None if deadline is None else max(deadline - loop.time(), 0.0)
                try:
                    item = await asyncio.wait_for(queue.get(), left)
                except TimeoutError:
                    raise TimeoutError(
                        f"{self._label} is not finished after {timeout:g} s; it goes on"
                    ) from None
                if item is None:
                    break
                yield item
            outcome = following.result()
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await following
        self._see(
            found=Found(found.resource, outcome.job or found.obj),
            pods=tuple(outcome.pods),
            progress=outcome.progress,
            tails=outcome.tails,
            is_gone=outcome.job is None,
        )

    def _conclude(self, check: bool) -> None:
        """Raise what the end of the job calls for."""
        if self._seen.is_gone:
            raise UserError(f"{self._label} was deleted")
        if check and jobstate.condition(self._seen.found.obj, "Failed"):
            raise JobFailed(self._label, failure_of(self._outcome()))

    def _outcome(self) -> Outcome:
        seen = self._seen
        return Outcome(seen.found.obj, list(seen.pods), seen.progress, seen.tails)

    async def _set_suspend(self, value: bool) -> Self:
        await self.refresh()
        obj = await jobs.set_suspend(self._cluster.client, self._seen.found, value)
        self._see(found=Found(self._seen.found.resource, obj))
        return self

    def _is_of(self, line: LogLine, replica: str | None) -> bool:
        named = line.replica.partition("/")[0]  # an init container's follows
        return replica in (None, named, f"{self.name}-{named}")

    def _pods_named(self, replica: str | None) -> list[Object]:
        return jobs.of_replica(self._seen.found, self._seen.pods, replica)

    @property
    def _label(self) -> str:
        return f"{self.kind} {self.name}"

    def _see(self, **changes: object) -> None:
        self._seen = msgspec.structs.replace(self._seen, **changes)


def hand_out(item: LogLine | Notice, on_line: LineHandler | None, on_notice: NoticeHandler | None) -> None:
    """Call the handler that the item is for, if there is one."""
    if isinstance(item, LogLine):
        if on_line is not None:
            on_line(item)
    elif on_notice is not None:
        on_notice(item)


class _Queued:
    """A view that passes on what a follow sees."""

    def __init__(self, queue: asyncio.Queue[LogLine | Notice | None]) -> None:
        self._queue = queue

    async def lines(self, replica: str, lines: Sequence[str]) -> None:
        for line in lines:
            self._queue.put_nowait(LogLine(replica, line))

    def frame(self, replica: str, text: str) -> None:
        return

    def update(self, snapshot: Snapshot) -> None:
        return

    def event(self, text: str) -> None:
        self._queue.put_nowait(Notice(text))
