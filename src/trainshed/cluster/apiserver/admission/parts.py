"""Webhooks and policies are asked about what is no object of the store: an eviction, a Binding, `exec` and the like."""

from __future__ import annotations

import msgspec

from trainshed.cluster.apiserver.admission import policies, webhooks
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.kube.meta.objects import Object, metadata_of
from trainshed.kube.meta.resources import MUTATINGWEBHOOKS, VALIDATINGWEBHOOKS
from trainshed.kube.policy.webhooks import Admitted


def asked(core: Core) -> bool:
    """Return whether there is anybody to ask about what is not changed by being asked."""
    return webhooks.exist(core, VALIDATINGWEBHOOKS) or policies.exist(core)


async def admitted(
    core: Core, call: Call, obj: Object, kind: tuple[str, str, str], *, dry_run: bool
) -> Object:
    """Return an object that is sent to a subresource as admission wants it. `kind` is its group, version and kind.

    Raises `ApiError` as somebody refuses it.
    """
    if not (asked(core) or webhooks.exist(core, MUTATINGWEBHOOKS)):
        return obj
    group, version, name = kind
    metadata = {"creationTimestamp": None, "namespace": call.route.namespace, **metadata_of(obj)}
    own = {"kind": name, "apiVersion": f"{group}/{version}" if group else version}
    request = webhooks.asked(
        core,
        call,
        {**obj, **own, "metadata": metadata},
        None,
        subresource=call.route.subresource,
        dry_run=dry_run,
        kind=kind,
    )
    return await _through(core, call, request)


async def connected(core: Core, call: Call, obj: Object) -> Object:
    """Return what a CONNECT asks for (`PodExecOptions`, …) as admission wants it. Raises `ApiError` likewise."""
    if not (asked(core) or webhooks.exist(core, MUTATINGWEBHOOKS)):
        return obj
    request = webhooks.asked(
        core,
        call,
        obj,
        None,
        subresource=call.route.subresource,
        dry_run=False,
        kind=("", "v1", str(obj["kind"])),
        connects=True,
    )
    return await _through(core, call, request)


async def _through(core: Core, call: Call, request: Admitted) -> Object:
    obj = await webhooks.mutate(core, call, request)
    assert obj is not None
    request = msgspec.structs.replace(request, object=obj)
    await policies.check(core, call, request)
    await webhooks.validate(core, call, request)
    return obj
