"""A cluster, for asynchronous callers: the local one, or any that a kubeconfig names. `sdk.blocking` waits for it."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

import msgspec

from trainshed.api.registry import is_of_our_groups
from trainshed.client.client import Client
from trainshed.client.transport import TransportError
from trainshed.kube.meta.errors import ApiError
from trainshed.sdk import check as checking
from trainshed.sdk import jobs, local
from trainshed.sdk import run as running
from trainshed.sdk.apply import Applied, apply_all
from trainshed.sdk.check import Verdict
from trainshed.sdk.connection import Target, open_client
from trainshed.sdk.errors import UserError
from trainshed.sdk.images import known as known_images
from trainshed.sdk.images import register_beside
from trainshed.sdk.job import AsyncJob, LineHandler, NoticeHandler
from trainshed.sdk.jobs import Found
from trainshed.sdk.local import ClusterStatus
from trainshed.sdk.manifests import Source, collect, files_of


class AsyncCluster:
    """The local cluster or, with `context` or `kubeconfig`, another one.

    Connects when it is first used. Close it, or use it as a context manager, within the event loop that uses it.

    Example:
        from trainshed import AsyncCluster

        async with AsyncCluster() as cluster:
            job = await cluster.run("job.yaml", timeout=60)
            print(job.state, (await job.result()).accuracy)
    """

    def __init__(
        self,
        *,
        context: str | None = None,
        kubeconfig: str | None = None,
        namespace: str | None = None,
        home: str | None = None,
    ) -> None:
        """Say which cluster; nothing is started or asked yet.

        Args:
            context: a context of the kubeconfig.
            kubeconfig: a file; without it what `KUBECONFIG` names, or `~/.kube/config`.
            namespace: where objects go that do not say; without it that of the context.
            home: state directory of the local cluster; without it `$TRAINSHED_HOME`, or the usual place.
        """
        self._target = Target(kubeconfig, context, namespace, home)
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The connection, which serves every Kubernetes resource.

        Raises:
            ConfigError: the kubeconfig is missing or malformed.
            UserError: there is no local cluster.
        """
        if self._client is None:
            self._client = open_client(self._target)
        return self._client

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to close."""
        return self._client is not None

    async def up(self, *, nodes: int = 0, port: int = 0) -> ClusterStatus:
        """Start the local cluster, if it is not up, and return what runs.

        Args:
            nodes: how many virtual nodes to show, which share this machine; 0 keeps those of last time.
            port: where on 127.0.0.1 the API listens; 0 keeps the last or takes a free one.

        Raises:
            StartFailed: it does not come up; the hint says what to do.
            StateError: the state directory cannot be used.
            UserError: this is not the local cluster.
        """
        self._require_local("up")
        started = await asyncio.to_thread(
            local.start, self._target.paths, local.StartOptions(nodes=nodes, port=port)
        )
        if not started.already:
            await self.close()  # what was connected before is another server
        return await self.status()

    async def down(self, *, purge: bool = False) -> None:
        """Stop the local cluster and every pod; with `purge`, also delete all state: jobs, logs, volumes.

        Raises:
            StateError: the state directory cannot be used.
            TimeoutError: the control plane does not end.
            UserError: this is not the local cluster, or something cannot be deleted.
        """
        self._require_local("down")
        await self.close()
        await local.stop(self._target.paths)
        if purge:
            await local.purge(self._target.paths)

    async def status(self) -> ClusterStatus:
        """Return what runs, and where; of a cluster elsewhere, whether it answers and which version it has."""
        if self._target.is_local:
            return await asyncio.to_thread(local.status, self._target.paths)
        try:
            version = msgspec.json.decode(await self.client.raw_get("/version", accept="application/json"))
        except (TransportError, ApiError):
            return ClusterStatus(running=False)
        return ClusterStatus(running=True, version=str(version.get("gitVersion", "")))

    async def apply(self, manifests: Source) -> list[Applied]:
        """Apply manifests: all of them or, when one is refused by the dry run that goes first, none.

        Args:
            manifests: a file or directory, the text itself, an object as a dict; or several of them.

        Raises:
            ApiError: what the server refused, with the field path.
            UserError: no manifest, or a kind that the server does not have.
        """
        objects = collect(manifests)
        return await apply_all(self.client, objects, self.client.namespace)

    async def check(self, manifests: Source) -> list[Verdict]:
        """Return a verdict on each object, changing nothing: what is refused, and what would go wrong.

        Raises:
            UserError: no manifest.
        """
        is_local = self._target.is_local
        known = known_images(files_of(manifests), self._target.paths.images_file) if is_local else None
        return await checking.examine(self.client, collect(manifests), local=is_local, images=known)

    async def run(
        self,
        manifests: Source,
        *,
        wait: bool = True,
        timeout: float | None = None,
        on_line: LineHandler | None = None,
        on_notice: NoticeHandler | None = None,
    ) -> AsyncJob:
        """Apply manifests with one training job in them and wait until it is finished; return the job.

        The local cluster is started when it is not up. A job of that name that is finished is replaced, so that it
        trains again. The other arguments are those of `AsyncJob.wait`; with `wait=False` the job is only applied.

        Raises:
            JobFailed: with the replica that failed first and its last lines.
            ApiError: what the server refused, with the field path. Then nothing was applied.
            TimeoutError: the job was not finished in time; it goes on.
            UserError: no training job, or more than one; no manifest; a kind that the server does not have.
        """
        objects = collect(manifests)
        wanted = [obj for obj in objects if is_of_our_groups(obj)]
        if len(wanted) > 1:
            raise UserError(
                f"there are {len(wanted)} training jobs", "apply takes several; then job(name).wait()"
            )
        if self._target.is_local:
            await self.up()
            register_beside(files_of(manifests), local.images(self._target.paths))
        plan = await running.plan_run(self.client, objects)
        applied = await running.carry_out(self.client, plan)
        (obj,) = [each for each in applied if is_of_our_groups(each.obj)]
        job = AsyncJob(self, Found(obj.resource, obj.obj))
        if wait:
            await job.wait(timeout, on_line=on_line, on_notice=on_notice)
        return job

    async def jobs(self, namespace: str | None = None, *, all_namespaces: bool = False) -> list[AsyncJob]:
        """Return the training jobs of a namespace, or of all, by namespace and name."""
        home = None if all_namespaces else namespace or self.client.namespace
        return [AsyncJob(self, found) for found in await jobs.list_jobs(self.client, home)]

    async def job(self, name: str, kind: str | None = None, *, namespace: str | None = None) -> AsyncJob:
        """Return the training job of that name; `kind` is needed where kinds share it.

        Raises:
            UserError: there is no such job, or no such kind.
        """
        wanted = f"{kind}/{name}" if kind else name
        job = AsyncJob(self, await jobs.find(self.client, wanted, namespace))
        return await job.refresh()

    async def close(self) -> None:
        """Close the connection. The cluster runs on; a later call connects anew."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        target = self._target
        where = f"home={str(target.paths.root)!r}" if target.is_local else f"context={target.context!r}"
        return f"<{type(self).__name__} {where}>"

    def _require_local(self, verb: str) -> None:
        if not self._target.is_local:
            raise UserError(f"{verb} is for the local cluster, not for one that a kubeconfig names")
