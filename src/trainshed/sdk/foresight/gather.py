"""Reads the World: from a cluster, or of this machine alone."""

from __future__ import annotations

import asyncio
import contextlib
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed.cluster.images.directories import Image
from trainshed.cluster.node.pod.unsupported import Capabilities, local_capabilities
from trainshed.cluster.paths import StatePaths
from trainshed.cluster.scheduler.placement import SCHEDULERS
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, name_of, namespace_of, section
from trainshed.kube.meta.objects import objects as objects_in
from trainshed.operator.flags import gang_scheduler
from trainshed.operator.install import AUTO, embedded_options
from trainshed.sdk.foresight.references import references, storage_class
from trainshed.sdk.foresight.templates import templates
from trainshed.sdk.foresight.world import World

if TYPE_CHECKING:
    from trainshed.client.client import Client

_GANG, _POLICY_ONLY = "--gang-scheduler-name=", "--gang-policy-only"


async def of_cluster(client: Client, objects: Sequence[Object], images: Mapping[str, Image] | None) -> World:
    """Return what the cluster has of that which the objects refer to. What may not be read stays unknown.

    `images` are those of the local cluster; None for a cluster elsewhere, which pulls its own.
    """
    from trainshed.kube.meta.resources import NODES, PERSISTENTVOLUMES

    world = World(namespace=client.namespace)
    wanted = {
        world.key(kind, template.namespace, name)
        for obj in objects
        for template in templates(obj)
        for _, kind, name, _ in references(template)
    }
    wanted |= {("Namespace", "", namespace_of(obj) or client.namespace) for obj in objects}
    wanted |= {("StorageClass", "", name) for obj in objects if (name := storage_class(obj))}
    keys = sorted(wanted)
    found: list[Object | None | ApiError] = await asyncio.gather(*(_read(client, *key) for key in keys))
    volumes: list[Object] = []
    if any(map(storage_class, objects)):  # a claim of a class that is not there may take a volume that is
        with contextlib.suppress(ApiError):
            volumes = (await client.list(PERSISTENTVOLUMES)).items
    operator = await _operator(client) if images is not None else None
    try:
        nodes: Sequence[Object] | None = (await client.list(NODES)).items
    except ApiError:
        nodes = None
    return World(
        namespace=client.namespace,
        found={
            **{k: obj for k, obj in zip(keys, found, strict=True) if not isinstance(obj, ApiError)},
            **{("PersistentVolume", "", name_of(volume)): volume for volume in volumes},
        },
        nodes=nodes,
        images=images,
        schedulers=_schedulers(operator) if images is not None else None,
        operator=operator,
        capabilities=_capabilities() if images is not None else None,
    )


def _capabilities() -> Capabilities:
    """Return what pods of the local cluster can have, as it was last told to keep them apart."""
    return local_capabilities(plain=StatePaths.default().kept_isolation() == "plain")


async def _operator(client: Client) -> OperatorOptions | None:
    """Return how the operator of the local cluster was told to place pods together; None where there is none."""
    from trainshed.kube.meta.resources import DEPLOYMENTS
    from trainshed.operator.objects import NAME, NAMESPACE

    try:
        deployment = await client.get(DEPLOYMENTS, NAME, NAMESPACE)
    except ApiError:
        return None
    given = [
        str(text)
        for container in objects_in(section(deployment, "spec", "template", "spec"), "containers")
        for text in (*(container.get("command") or ()), *(container.get("args") or ()))
    ]
    names = [text.removeprefix(_GANG) for text in given if text.startswith(_GANG)]
    return OperatorOptions(
        gang_scheduler=gang_scheduler(names[-1]) if names else "", gang_policy_only=_POLICY_ONLY in given
    )


def _schedulers(operator: OperatorOptions | None) -> frozenset[str]:
    """Return who places pods on the local cluster: its scheduler by each of its names, that of the operator's too."""
    own = operator.gang_scheduler if operator is not None else ""
    return frozenset({*SCHEDULERS, own} - {""})


async def _read(client: Client, kind: str, namespace: str, name: str) -> Object | None | ApiError:
    """Return the object, None where there is none, and the refusal where nobody says."""
    from trainshed.kube.meta import resources

    resource = {
        each.kind: each
        for each in (
            resources.PERSISTENTVOLUMECLAIMS,
            resources.CONFIGMAPS,
            resources.SECRETS,
            resources.SERVICEACCOUNTS,
            resources.PRIORITYCLASSES,
            resources.NAMESPACES,
            resources.STORAGECLASSES,
        )
    }[kind]
    try:
        return await client.get(resource, name, namespace or None)
    except ApiError as error:
        return None if error.code == 404 else error


def of_machine(namespace: str, images: Mapping[str, Image], gang: str = AUTO) -> World:
    """Return what is known without a cluster: this machine as its one node, and the registered images.

    `gang` is what `trainshed up --gang-scheduler-name` was told last, with which the operator starts the next time.
    """
    from trainshed.cluster.node.devices import gpu
    from trainshed.cluster.node.hardware import capacity, known_labels

    name = platform.node()
    operator = embedded_options(gang)
    offered = capacity(
        Path.home() if Path.home().is_dir() else Path("/"), max_pods=110, gpus=len(gpu.detect())
    )
    node = {
        "metadata": {"name": name, "labels": known_labels(name)},
        "status": {"allocatable": offered, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    return World(
        namespace=namespace,
        nodes=[node],
        images=images,
        schedulers=_schedulers(operator),
        operator=operator,
        capabilities=_capabilities(),
    )
