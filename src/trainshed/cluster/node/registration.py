"""The Node object and its Lease: what this machine has, that it is ready, and that it is alive."""

from __future__ import annotations

import asyncio
import logging
import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from trainshed import __version__
from trainshed.client.client import Client
from trainshed.client.transport import TransportError
from trainshed.cluster.node.hardware import ARCHITECTURES, known_labels
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, is_true, section, status_of
from trainshed.kube.meta.resources import LEASES, NODES
from trainshed.kube.meta.times import format_micro_time, format_time

log = logging.getLogger(__name__)

KILLED = "trainshed.dev/killed"
"""The annotation of a node that somebody has killed, and nobody has started again."""
LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
RENEW_SECONDS = 10.0
REPORT_SECONDS = 300.0
"""How often conditions are said again that did not change (a kubelet's `nodeStatusReportFrequency`)."""
KUBELET_VERSION = "v1.33.2"
KUBELET_PORT = 10250
NOT_READY_TAINT = "node.kubernetes.io/not-ready"
DISK, MEMORY = "DiskPressure", "MemoryPressure"
"""Conditions that are true when there is little left."""
_PRESSURES: Mapping[str, tuple[str, str, str]] = {
    DISK: ("KubeletHasDiskPressure", "kubelet has disk pressure", "node.kubernetes.io/disk-pressure"),
    MEMORY: (
        "KubeletHasInsufficientMemory",
        "kubelet has insufficient memory available",
        "node.kubernetes.io/memory-pressure",
    ),
}
"""Reason, message and taint of each."""
_READY = ("KubeletReady", "the node runs pods as sandboxed processes")
_HEALTHY: Mapping[str, tuple[str, str]] = {
    MEMORY: ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    DISK: ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "process ids are not watched"),
}


def node_info() -> dict[str, str]:
    """Return the ten strings of `status.nodeInfo`."""
    machine = _text("/etc/machine-id") or _text("/var/lib/dbus/machine-id")
    return {
        "machineID": machine,
        "systemUUID": machine,
        "bootID": _text("/proc/sys/kernel/random/boot_id"),
        "kernelVersion": platform.release(),
        "osImage": _os_image(),
        "containerRuntimeVersion": f"trainshed://{__version__}",
        "kubeletVersion": f"{KUBELET_VERSION}+trainshed",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
    }


def node_object(name: str, labels: Mapping[str, str]) -> Object:
    """Return the Node to create: labels only, what it has is status."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**known_labels(name), **labels}},
        "spec": {},
    }


def node_status(
    name: str,
    host_ip: str,
    amounts: Mapping[str, str],
    info: Mapping[str, str],
    old: Object,
    now: float,
    *,
    pressures: Collection[str] = (),
    images: Sequence[Object] = (),
    maps_users: bool = False,
) -> Object:
    """Return the Node's status. Conditions of others are kept. `maps_users`: pods may have other users' groups."""
    before = {c["type"]: c for c in old.get("conditions") or ()}
    conditions = [c for kind, c in before.items() if kind != "Ready" and kind not in _HEALTHY]
    rows = [(kind, "False", *text) for kind, text in _HEALTHY.items()] + [("Ready", "True", *_READY)]
    rows = [(row[0], "True", *_PRESSURES[row[0]][:2]) if row[0] in pressures else row for row in rows]
    for kind, status, reason, message in rows:
        same = before.get(kind, {}).get("status") == status
        conditions.append(
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": format_time(now),
                "lastTransitionTime": before[kind]["lastTransitionTime"] if same else format_time(now),
            }
        )
    return {
        "capacity": dict(amounts),
        "allocatable": dict(amounts),
        "conditions": conditions,
        "addresses": [{"type": "InternalIP", "address": host_ip}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": KUBELET_PORT}},
        "nodeInfo": dict(info),
        "images": list(images),
        "features": {"supplementalGroupsPolicy": maps_users},
    }


class Registration:
    """Creates and keeps the Node of this machine. ApiErrors of `register` are for the caller.

    `images` returns what the node has of them, as its status lists it. `maps_users` as in `node_status`.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        host_ip: str,
        amounts: Mapping[str, str],
        labels: Mapping[str, str],
        images: Callable[[], Sequence[Object]] = tuple,
        maps_users: bool = False,
        now: Callable[[], float],
    ) -> None:
        self._client = client
        self._name = name
        self._host_ip = host_ip
        self._amounts = amounts
        self._labels = labels
        self._images = images
        self._maps_users = maps_users
        self._said_images: Sequence[Object] = ()
        self._now = now
        self._pressures: set[str] = set()
        self._reported = 0.0
        self.new_boot_id = ""
        """Not empty where the machine was booted since somebody registered the node before."""

    async def register(self) -> Object:
        """Create or update the Node, make it Ready and take the not-ready taint off; return it."""
        wanted = node_object(self._name, self._labels)
        try:
            node = await self._client.create(NODES, wanted)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            labels = {"metadata": {"labels": wanted["metadata"]["labels"]}}
            node = await self._client.patch(NODES, self._name, None, labels)
        before, now = section(node, "status", "nodeInfo").get("bootID"), node_info()["bootID"]
        if before and before != now:
            self.new_boot_id = now
        # First: a node that says it is ready, and is not heard of, is taken to be lost.
        await self._renew(node)
        status = {"status": self._status(node)}
        self._said_images = status["status"]["images"]
        node = await self._client.patch(NODES, self._name, None, status, subresource="status")
        taints = node["spec"].get("taints") or []
        gone = {
            NOT_READY_TAINT,
            *(taint for kind, (_, _, taint) in _PRESSURES.items() if kind not in self._pressures),
        }
        kept = [t for t in taints if t.get("key") not in gone]
        if kept != taints:
            node = await self._client.patch(NODES, self._name, None, {"spec": {"taints": kept or None}})
        return node

    async def pressure(self, kind: str, short: bool) -> None:
        """Write whether there is little left of `DISK` or `MEMORY`: the condition, and the taint that keeps pods away.

        Raises ApiError or TransportError.
        """
        (self._pressures.add if short else self._pressures.discard)(kind)
        taint = _PRESSURES[kind][2]
        node = await self._client.get(NODES, self._name)
        await self._say_conditions(node)
        taints = [t for t in node["spec"].get("taints") or [] if t.get("key") != taint]
        if short:
            since = format_time(self._now())
            taints.append({"key": taint, "effect": "NoSchedule", "timeAdded": since})
        await self._client.patch(NODES, self._name, None, {"spec": {"taints": taints or None}})

    async def _say_conditions(self, node: Object) -> None:
        conditions = {"status": {"conditions": self._status(node)["conditions"]}}
        await self._client.patch(NODES, self._name, None, conditions, subresource="status")

    def _status(self, node: Object) -> Object:
        self._reported = self._now()
        return node_status(
            self._name,
            self._host_ip,
            self._amounts,
            node_info(),
            status_of(node),
            self._now(),
            pressures=self._pressures,
            images=self._images(),
            maps_users=self._maps_users,
        )

    async def keep_alive(self, node: Object) -> None:
        """Renew the Lease every 10 s until cancelled; tell what images there are now, say again that the node is
        ready if others say it is not, and from time to time how it is."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self._renew(node)
                found = await self._client.get(NODES, self._name)
                if not is_true(found, "Ready"):
                    await self.register()
                await self._tell_images()
                if self._now() - self._reported >= REPORT_SECONDS:
                    await self._say_conditions(found)
            except (ApiError, TransportError) as error:
                log.warning("lease not renewed", extra={"node": self._name, "error": str(error)})

    async def _tell_images(self) -> None:
        images = self._images()
        if images != self._said_images:
            status = {"status": {"images": list(images)}}
            await self._client.patch(NODES, self._name, None, status, subresource="status")
            self._said_images = images

    async def _renew(self, node: Object) -> None:
        renewed = {"spec": {"renewTime": format_micro_time(self._now())}}
        try:
            await self._client.patch(LEASES, self._name, LEASE_NAMESPACE, renewed)
            return
        except ApiError as error:
            if error.code != 404:
                raise
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": node["metadata"]["uid"]}
        metadata = {"name": self._name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": {"holderIdentity": self._name, "leaseDurationSeconds": LEASE_SECONDS, **renewed["spec"]},
        }
        await self._client.create(LEASES, lease)


def _os_image() -> str:
    for line in _text("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return "Linux"


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
