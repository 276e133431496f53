"""ResourceQuota: an object is stored only if the quotas of its namespace have room for it.

What it uses is written into the status of each quota before the object is stored, one request of a namespace after the
other, so that of two for the last room one is refused. The controller counts anew whenever something changes; `charges`
keeps it from taking what is charged and not stored yet for free. Until a charge is released its object counts twice,
and one that is refused in the end counts, too: nobody is refused for that, but waits, and what is stored is counted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.store import KeyMissing, RevisionMismatch, Stored, keys
from trainshed.kube.meta.amounts import Amounts, add
from trainshed.kube.meta.errors import conflict, forbidden
from trainshed.kube.meta.objects import Object, uid_of
from trainshed.kube.meta.resources import PODS, RESOURCEQUOTAS
from trainshed.kube.policy import quota

_ATTEMPTS = 20


@asynccontextmanager
async def charged(
    core: Core, call: Call, new: Object, old: Object | None, *, dry_run: bool
) -> AsyncIterator[None]:
    """Charge the quotas of the namespace for as long as the body stores `new`; give it back where that fails.

    Raises:
        ApiError: 403 when a quota has no room, or wants to be told how much a container needs.
    """
    if not call.kind.resource.namespaced or not core.store.list(_prefix(call))[0]:
        yield
        return
    async with core.charges.turn(call.route.namespace or ""):
        if dry_run:
            await _owed(core, call, new, old)
            owed = []
        else:
            owed = await _charge(core, call, new, old)
    try:
        yield
    except BaseException:
        for stored, more in owed:
            await _give_back(core, stored.key, more)
        raise
    finally:
        for stored, more in owed:
            core.charges.release(uid_of(stored.obj), more)


def _prefix(call: Call) -> str:
    return keys.under(RESOURCEQUOTAS, call.route.namespace)


async def _charge(core: Core, call: Call, new: Object, old: Object | None) -> list[tuple[Stored, Amounts]]:
    paid: dict[str, tuple[Stored, Amounts]] = {}
    try:
        for _ in range(_ATTEMPTS):
            lost = False
            for stored, more, used in await _owed(core, call, new, old, set(paid)):
                # Held before it is written: nobody may count between the two and miss it.
                core.charges.hold(uid_of(stored.obj), more)
                try:
                    await core.store.update(stored.key, _with(stored, more, used), stored.revision)
                except BaseException as error:
                    core.charges.release(uid_of(stored.obj), more)
                    if not isinstance(error, (RevisionMismatch, KeyMissing)):
                        raise
                    lost = True
                else:
                    paid[stored.key] = (stored, more)
            if not lost:
                return list(paid.values())
        raise conflict(call.kind.resource.plural, call.kind.resource.group, new["metadata"]["name"])
    except BaseException:
        for stored, more in paid.values():
            await _give_back(core, stored.key, more)
            core.charges.release(uid_of(stored.obj), more)
        raise


async def _owed(
    core: Core, call: Call, new: Object, old: Object | None, paid: set[str] | None = None
) -> list[tuple[Stored, Amounts, Amounts]]:
    """Return of each quota that has not been paid what the write uses of it, and what is used already.

    Raises:
        ApiError: 403 when there is no room.
    """
    resource = call.kind.resource
    out = []
    for stored in core.store.list(_prefix(call))[0]:
        held = stored.obj
        if paid and stored.key in paid:
            continue
        if not quota.concerns(held, resource.group, resource.plural, new):
            continue
        if resource == PODS and old is None:
            lacking = quota.unsaid(held, new)
            if lacking:
                name = held["metadata"]["name"]
                raise _refused(call, new, f"failed quota: {name}: must specify {lacking}")
        before: Amounts = {}
        if old is not None and quota.concerns(held, resource.group, resource.plural, old):
            before = quota.usage(resource.group, resource.plural, old, call.now)
        after = quota.usage(resource.group, resource.plural, new, call.now)
        bounds = quota.hard(held)
        more = {n: a for n, a in quota.grown(after, before).items() if n in bounds and a > 0}
        if not more:
            continue
        used = _used(core, call, held)
        if quota.exceeded(held, used, more) and uid_of(held) in core.charges.doubted:
            await core.charges.settled(uid_of(held))
            counted = count(core, held, call.now)
            if quota.status(held, counted) == quota.status(held, used):
                core.charges.doubted.discard(uid_of(held))
            used = {name: min(amount, counted.get(name, Decimal(0))) for name, amount in used.items()}
        if why := quota.exceeded(held, used, more):
            raise _refused(call, new, why)
        out.append((stored, more, used))
    return out


def _refused(call: Call, obj: Object, why: str) -> Exception:
    resource = call.kind.resource
    return forbidden(resource.plural, resource.group, obj["metadata"].get("name", ""), why)


def _used(core: Core, call: Call, held: Object) -> Amounts:
    """Return what is used of a quota: as its status says or, while it does not, as counted now."""
    known = quota.known_usage(held)
    return count(core, held, call.now) if known is None else known


def count(core: Core, held: Object, now: float) -> Amounts:
    """Return what is used of a quota by what is stored and by what is charged and on its way."""
    namespace = held["metadata"]["namespace"]
    found = (
        (group, plural, stored.obj)
        for group, plural in sorted(quota.counted_kinds(held))
        for stored in core.store.list(keys.collection(group, plural, namespace))[0]
    )
    out = quota.total(held, found, now)
    add(out, core.charges.of(uid_of(held)))
    return out


def _with(stored: Stored, more: Amounts, used: Amounts) -> Object:
    together = dict(used)
    add(together, more)
    return {**stored.obj, "status": quota.status(stored.obj, together)}


async def _give_back(core: Core, key: str, more: Amounts) -> None:
    for _ in range(_ATTEMPTS):
        stored = core.store.get(key)
        used = None if stored is None else quota.known_usage(stored.obj)
        if stored is None or used is None:
            return
        add(used, {name: -amount for name, amount in more.items()})
        left = {name: max(amount, Decimal(0)) for name, amount in used.items()}
        try:
            await core.store.update(
                key, {**stored.obj, "status": quota.status(stored.obj, left)}, stored.revision
            )
            return
        except (RevisionMismatch, KeyMissing):
            continue
