"""What every new pod gets: requests and limits, its service account and token, priority, default tolerations.

Source: the LimitRanger, ServiceAccount, Priority, RuntimeClass and DefaultTolerationSeconds admission plug-ins.
"""

from __future__ import annotations

import asyncio
from functools import partial

from trainshed.cluster.apiserver.admission import limits, priority, runtimes
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.store import Compacted, keys
from trainshed.kube.builtin.parts.pod.admission import admit_pod, tolerations
from trainshed.kube.meta.errors import forbidden
from trainshed.kube.meta.objects import Object, section, spec_of
from trainshed.kube.meta.resources import SERVICEACCOUNTS

_AUTOMOUNT = "automountServiceAccountToken"
MIRROR = "kubernetes.io/config.mirror"
DEFAULT_ACCOUNT_SECONDS = 3.0
"""How long a pod waits for its namespace's `default` account, which a controller is about to make."""


async def admit(core: Core, call: Call, obj: Object) -> Object:
    """Return a new pod as it will be stored. Raises `ApiError` 403."""
    obj = limits.admit_pod(core, call, obj)
    spec = dict(spec_of(obj))
    obj = {**obj, "spec": spec}
    spec.update(priority.resolve(core, call, obj))
    spec.update(runtimes.resolve(core, obj))
    wants_token = MIRROR not in section(obj, "metadata", "annotations")
    if wants_token:
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        account = await _account(core, call.route.namespace or "", name, obj)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account["imagePullSecrets"]
        wants_token = bool(spec.get(_AUTOMOUNT, account.get(_AUTOMOUNT, True)))
    said = spec.get(_AUTOMOUNT)
    spec[_AUTOMOUNT] = wants_token
    out = await call.request.apart(partial(admit_pod, obj, token_volume_suffix=core.name_suffix()))
    if said is None:
        del out["spec"][_AUTOMOUNT]
    return out


async def _account(core: Core, namespace: str, name: str, obj: Object) -> Object:
    key = keys.of(SERVICEACCOUNTS, namespace, name)
    stored = core.store.get(key)
    if stored is None and name == "default":
        await _appears(core, namespace, key)
        stored = core.store.get(key)
    if stored is None:
        raise forbidden(
            "pods",
            "",
            obj["metadata"].get("name", ""),
            f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found',
        )
    return stored.obj


async def _appears(core: Core, namespace: str, key: str) -> None:
    """Wait for an object, at most `DEFAULT_ACCOUNT_SECONDS`."""
    watch = core.store.watch(keys.under(SERVICEACCOUNTS, namespace), core.store.revision)
    try:
        async with asyncio.timeout(DEFAULT_ACCOUNT_SECONDS):
            while core.store.get(key) is None:
                if not await watch.batch():
                    return
    except (TimeoutError, Compacted):
        return
    finally:
        watch.close()


def admit_update(core: Core, call: Call, old: Object, new: Object) -> Object:
    """Return a pod with the tolerations that every pod has, also where an update replaced them."""
    spec = spec_of(new)
    return {**new, "spec": {**spec, "tolerations": tolerations(spec)}}
