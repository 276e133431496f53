"""What a cluster bears while parts of it are killed: writers, and a watcher who sees that nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib

from tests.hostile.crash_cluster import NAMESPACE, Cluster, Violation
from trainshed.client.transport import TransportError
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CONFIGMAPS, Resource


class Writer:
    """Counts in a ConfigMap: what was acknowledged has to stay."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster, self._name = cluster, name
        self.acknowledged: dict[int, int] = {}
        """Revision → count."""

    async def run(self) -> None:
        count = 0
        revision = 0
        while True:
            await asyncio.sleep(0.01)
            client = self._cluster.client
            body: Object = {
                "metadata": {"name": self._name, "namespace": NAMESPACE},
                "data": {"count": str(count + 1)},
            }
            try:
                if revision:
                    body["metadata"]["resourceVersion"] = str(revision)
                    made = await client.update(CONFIGMAPS, body)
                else:
                    made = await client.create(CONFIGMAPS, body, namespace=NAMESPACE)
            except (TransportError, TimeoutError, ApiError) as error:
                found = await self._look()
                seen = int(found["data"]["count"]) if found else 0
                if seen not in (count, count + 1):
                    raise Violation(
                        f"{self._name}: {seen} is stored, {count} was acknowledged ({error})"
                    ) from None
                count, revision = seen, int(found["metadata"]["resourceVersion"]) if found else 0
                continue
            count, revision = count + 1, int(made["metadata"]["resourceVersion"])
            if self.acknowledged and revision <= max(self.acknowledged):
                raise Violation(f"{self._name}: revision {revision} after {max(self.acknowledged)}")
            self.acknowledged[revision] = count

    async def _look(self) -> Object | None:
        async def ask() -> tuple[Object | None]:
            try:
                return (await self._cluster.client.get(CONFIGMAPS, self._name, NAMESPACE),)
            except ApiError as error:
                if error.code == 404:
                    return (None,)
                raise

        (found,) = await self._cluster.until(f"{self._name} can be read", ask)
        return found  # type: ignore[no-any-return]


class Watcher:
    """Follows a kind from the revision it has seen last."""

    def __init__(self, cluster: Cluster, resource: Resource) -> None:
        self._cluster, self._resource = cluster, resource
        self.seen: dict[int, Object] = {}
        self.gaps: list[tuple[int, int]] = []
        self.at = 0

    async def run(self) -> None:
        while True:
            try:
                if not self.at:
                    page = await self._cluster.client.list(self._resource, namespace=NAMESPACE)
                    self.at = int(page.resource_version)
                await self._follow()
            except ApiError as error:
                if error.code == 410:
                    page = await self._cluster.client.list(self._resource, namespace=NAMESPACE)
                    self.gaps.append((self.at, int(page.resource_version)))
                    self.at = int(page.resource_version)
                    self._cluster.figures.relists += 1
            except (TransportError, TimeoutError):
                pass
            await asyncio.sleep(0.05)

    async def _follow(self) -> None:
        watch = self._cluster.client.watch(
            self._resource, namespace=NAMESPACE, resource_version=str(self.at), timeout_seconds=60
        )
        async with contextlib.aclosing(watch) as events:
            async for event in events:
                revision = int(event.object["metadata"]["resourceVersion"])
                if event.type == "BOOKMARK":
                    self.at = max(self.at, revision)
                    continue
                if revision <= self.at:
                    raise Violation(f"{self._resource.plural}: event {revision} after {self.at}")
                self.seen[revision] = event.object
                self.at = revision

    def missed(self, revision: int) -> bool:
        """Return whether a change should have been delivered and was not."""
        return revision not in self.seen and not any(low < revision <= high for low, high in self.gaps)


async def reached(watcher: Watcher, revision: int) -> bool:
    return watcher.at >= revision
