"""Keeps the Endpoints and the EndpointSlices of each Service true to its pods."""

from __future__ import annotations

from typing import Any

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.informer import Informer, Key, key_of
from trainshed.cluster.controllers.endpoint_objects import (
    MANAGED_BY,
    MANAGER,
    MIRROR,
    SERVICE_NAME,
    endpoint_slices,
    endpoints,
    is_managed,
    mirrored_slices,
    same,
    selected,
    updated,
)
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, section, status_of
from trainshed.kube.meta.ownership import controller_of
from trainshed.kube.meta.pods import is_ready, phase
from trainshed.kube.meta.resources import ENDPOINTS, ENDPOINTSLICES, PODS, SERVICES

GATHER_SECONDS = 0.4
"""Changes of pods are gathered this long: by then most jobs run, also where other programs are busy, and each Service
is written once. The cluster's DNS and what routes to Services read the pods themselves and are not kept waiting."""


class EndpointsController(Controller[Key]):
    """One Endpoints and one EndpointSlice, named like the Service, per Service that selects pods; more slices where a
    port by name has different numbers.

    Endpoints of other Services belong to whoever wrote them, and are mirrored in slices, from which they are routed.
    Deletion with the Service is the garbage collector's work.
    """

    def __init__(self, client: Client, informers: SharedInformers) -> None:
        super().__init__("endpoints", informers, workers=4, gather_seconds=GATHER_SECONDS)
        self._client = client
        self._services = self.watch(informers.of(SERVICES), lambda service: [key_of(service)])
        self._services_by_label = self._services.index(_first_of_selector)
        pods = self.watch(informers.of(PODS), self._selecting, regards=_relevant)
        self._pods_by_label = pods.index(_labels)
        self._endpoints = self.watch(informers.of(ENDPOINTS), self._named_alike)
        self._slices = self.watch(informers.of(ENDPOINTSLICES), self._of_service)
        self._own_slices = self._slices.index(lambda one: _service_keys(one) if _is_own(one) else [])

    def _named_alike(self, written: Object) -> list[Key]:
        """Put right what others change or delete; our own writes are found to be right already."""
        key = key_of(written)
        return [key] if self._services.get(*key) is not None else []

    def _of_service(self, written: Object) -> list[Key]:
        keys = [key_of(written)] if not _is_own(written) else []
        keys += [_split(key) for key in _service_keys(written)]
        return [key for key in keys if self._services.get(*key) is not None]

    def _selecting(self, pod: Object) -> list[Key]:
        labels = section(pod["metadata"], "labels")
        return [
            key_of(service)
            for group in _labels(pod)
            for service in self._services_by_label.get(group)
            if service["spec"]["selector"].items() <= labels.items()
        ]

    async def reconcile(self, key: Key) -> float | None:
        service = self._services.get(*key)
        try:
            if service is None:
                await self._write_slices(key, [], MIRROR)  # the others are the garbage collector's
                if (written := self._endpoints.get(*key)) is not None and controller_of(written) is None:
                    # Those of a user go with the Service, too.
                    await self._client.delete(ENDPOINTS, key[1], key[0], uid=written["metadata"]["uid"])
            elif is_managed(service):
                # Whoever is selected is in each group: the smallest one will do.
                group = min(_pairs(key[0], service["spec"]["selector"]), key=self._pods_by_label.count)
                pods = selected(service, self._pods_by_label.get(group))
                await self._write(self._endpoints, endpoints(service, pods))
                await self._write_slices(key, endpoint_slices(service, pods))
            else:
                written = self._endpoints.get(*key)
                await self._write_slices(key, mirrored_slices(service, written) if written else [])
        except ApiError as error:
            # The namespace or the Service is going away, or a mirror is old: its next event brings us back.
            if error.code == 403 or error.code == 404 or error.reason == "AlreadyExists":
                return None
            raise
        return None

    async def _write_slices(self, key: Key, desired: list[Object], whose: str = "") -> None:
        """Make these the slices of the Service, besides those that others wrote; of `whose` alone others go."""
        for one in desired:
            await self._write(self._slices, one)
        names = {one["metadata"]["name"] for one in desired}
        for one in self._own_slices.get(f"{key[0]}/{key[1]}"):
            manager = one["metadata"]["labels"][MANAGED_BY]
            if one["metadata"]["name"] not in names and whose in ("", manager):
                await self._client.delete(ENDPOINTSLICES, one["metadata"]["name"], key[0])

    async def _write(self, informer: Informer, desired: Object) -> None:
        existing = informer.get(*key_of(desired))
        if existing is None:
            await self._client.create(informer.resource, desired)
        elif not same(existing, desired):
            await self._client.update(informer.resource, updated(existing, desired))


def _is_own(endpoint_slice: Object) -> bool:
    return section(endpoint_slice["metadata"], "labels").get(MANAGED_BY) in (MANAGER, MIRROR)


def _service_keys(endpoint_slice: Object) -> list[str]:
    """Return the key of the Service that the slice is of, as a text."""
    metadata = endpoint_slice["metadata"]
    name = section(metadata, "labels").get(SERVICE_NAME)
    return [f"{metadata['namespace']}/{name}"] if name else []


def _split(key: str) -> Key:
    namespace, _, name = key.partition("/")
    return namespace, name


def _pairs(namespace: str, labels: dict[str, str]) -> list[str]:
    return [f"{namespace}/{name}={value}" for name, value in sorted(labels.items())]


def _labels(pod: Object) -> list[str]:
    return _pairs(pod["metadata"]["namespace"], section(pod["metadata"], "labels"))


def _first_of_selector(service: Object) -> list[str]:
    """Any one pair of the selector will do: a pod that lacks it is not selected."""
    if not is_managed(service):
        return []
    return _pairs(service["metadata"]["namespace"], service["spec"]["selector"])[:1]


def _relevant(pod: Object) -> tuple[Any, ...]:
    return (
        status_of(pod).get("podIP"),
        phase(pod),
        is_ready(pod),
        pod["metadata"].get("labels"),
        pod["metadata"].get("deletionTimestamp"),
    )
