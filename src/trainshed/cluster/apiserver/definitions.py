"""CustomResourceDefinitions at work: what they serve, and what goes with them.

The registry follows the store: `sync` runs before every request, so a kind is served from the moment that its
definition is committed, before the create of the definition is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable

import msgspec

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.store import DELETED, Compacted, KeyMissing, RevisionMismatch, Stored, keys
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.resources import CRDS
from trainshed.kube.meta.times import format_time
from trainshed.kube.schema import crd_serving

_PREFIX = keys.under(CRDS)
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_RETRY_SECONDS = 0.2

_encode = msgspec.json.Encoder(order="sorted").encode

Remove = Callable[[Stored], Awaitable[None]]


class Definitions:
    """Keeps the registry up to date with the definitions in the store."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._load()

    def _load(self) -> None:
        found, revision = self._core.store.list(_PREFIX)
        self._watch = self._core.store.watch(_PREFIX, revision)
        kinds = self._core.kinds
        for name in set(kinds.definitions) - {stored.obj["metadata"]["name"] for stored in found}:
            self._drop(name)
        for stored in found:
            self._serve(stored)

    def sync(self) -> None:
        """Take in what changed since the last call. Cheap when nothing did."""
        try:
            events = self._watch.drain()
        except Compacted:
            self._load()
            return
        for event in events:
            if event.type == DELETED:
                self._drop(event.stored.obj["metadata"]["name"])
            else:
                self._serve(event.stored)

    def _serve(self, stored: Stored) -> None:
        obj, kinds = stored.obj, self._core.kinds
        name = obj["metadata"]["name"]
        if not crd_serving.is_established(obj):
            return
        digest = _digest(obj["spec"])
        if kinds.specs.get(name) == digest:
            return  # only metadata or status changed
        kinds.specs[name] = digest
        kinds.definitions[name] = stored.revision
        kinds.registry.add(name, crd_serving.infos(obj, stored.encoded))
        kinds.end_watches(name)

    def _drop(self, name: str) -> None:
        kinds = self._core.kinds
        kinds.definitions.pop(name, None)
        kinds.specs.pop(name, None)
        kinds.terminating.pop(name, None)
        kinds.registry.remove(name)
        kinds.end_watches(name)

    async def clean_up(self, remove: Remove) -> None:
        """Delete the objects of definitions that are being deleted, then let those go; until cancelled."""
        store = self._core.store
        while True:
            self.sync()  # who watches is told at once, not with the next request
            revision = store.revision
            terminating = [stored for stored in store.list(_PREFIX)[0] if _is_ending(stored)]
            for stored in terminating:
                with contextlib.suppress(
                    RevisionMismatch, KeyMissing
                ):  # looked at again on the event of that
                    await self._clean(stored, remove)
            watch = store.watch(_PREFIX, revision)
            try:
                async with asyncio.timeout(_RETRY_SECONDS if terminating else None):
                    if not await watch.batch():
                        return  # the store closes
            except (TimeoutError, Compacted):
                pass
            finally:
                watch.close()

    async def _clean(self, stored: Stored, remove: Remove) -> None:
        stored = await self._begun(stored)
        obj = stored.obj
        spec = obj["spec"]
        prefix = keys.collection(spec["group"], spec["names"]["plural"])
        for instance in self._core.store.list(prefix)[0]:
            if not instance.obj["metadata"].get("deletionTimestamp"):
                await remove(instance)
        for key in self._core.store.damaged(prefix):
            await self._core.store.discard(key, {"metadata": {"name": keys.place(key).name, "uid": ""}})
        if self._core.store.list(prefix)[0]:
            return  # finalizers hold some back
        finalizers = [f for f in obj["metadata"].get("finalizers") or () if f != CLEANUP]
        metadata = {**obj["metadata"], "finalizers": finalizers}
        if not finalizers:
            await self._core.store.delete(stored.key, stored.revision)
        elif finalizers != obj["metadata"].get("finalizers"):
            await self._core.store.update(stored.key, {**obj, "metadata": metadata}, stored.revision)

    async def _begun(self, stored: Stored) -> Stored:
        """Return a definition that says that its objects are being deleted, as this one does from now on."""
        obj = crd_serving.deleting_instances(stored.obj, format_time(self._core.clock()))
        if obj == stored.obj:
            return stored
        return await self._core.store.update(stored.key, obj, stored.revision)


def _is_ending(definition: Stored) -> bool:
    """Return whether a definition is being deleted. Those that are not are long, and not decoded for it."""
    if b'"deletionTimestamp"' not in definition.encoded:
        return False
    return bool(definition.obj["metadata"].get("deletionTimestamp"))


def _digest(spec: Object) -> bytes:
    return hashlib.blake2b(_encode(spec), digest_size=16).digest()


def check_served(core: Core, call: Call) -> None:
    """Raise 405 when the CustomResourceDefinition of a new object is being deleted."""
    stored = core.store.get(keys.of(CRDS, None, call.kind.info.crd_name))
    if stored is not None and _is_terminating(core, stored):
        raise ApiError(
            405,
            "MethodNotAllowed",
            "create not allowed while custom resource definition is terminating",
            kind=call.kind.resource.plural,
            group=call.kind.resource.group,
        )


def _is_terminating(core: Core, definition: Stored) -> bool:
    """Return whether a definition, which is long and decoded once for all its objects, is being deleted."""
    name = keys.place(definition.key).name
    known = core.kinds.terminating.get(name)
    if known is None or known[0] != definition.revision:
        core.kinds.terminating[name] = known = (definition.revision, _is_ending(definition))
    return known[1]


def names_conflict(core: Core, obj: Object) -> str:
    """Return why the names of a definition cannot be accepted, empty when they can."""
    spec = obj["spec"]
    names = section(spec, "names")
    own = obj["metadata"].get("name", "")
    wanted = {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}
    for info in core.kinds.registry.in_group(spec.get("group", "")):
        if info.crd_name == own:
            continue
        held = {info.resource.plural, info.singular, *info.short_names}
        for name in sorted(wanted & held):
            return f'"{name}" is already in use'
        if names.get("kind") in (info.resource.kind, info.list_kind):
            return f'"{names["kind"]}" is already in use'
    return ""
