"""How the objects of a served resource lie in the store, and how they look through it.

A resource may be a view: another version of a custom resource, or another shape of a built-in kind
(`kube.served.registry`, `view_of`). The store keeps one shape; `ServedKind` translates both ways.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from weakref import WeakSet

import msgspec

from trainshed.cluster.apiserver.http import encode_json
from trainshed.cluster.store import Stored, Watch, keys
from trainshed.kube.builtin import registry
from trainshed.kube.builtin.kind import View
from trainshed.kube.meta.errors import ApiError, internal, not_found
from trainshed.kube.meta.fieldselectors import Getter
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resourceinfo import ResourceInfo
from trainshed.kube.meta.resources import Resource
from trainshed.kube.schema import nodes as schemas
from trainshed.kube.schema.nodes import SchemaNode
from trainshed.kube.schema.structural import apply_defaults
from trainshed.kube.served.registry import Registry

_CACHED_VIEWS = 512
_CACHED_CONVERSIONS = 2_000


class ServedKind:
    """A served resource with everything that depends on its definition alone."""

    def __init__(self, info: ResourceInfo, since_revision: int, converter: View | None = None) -> None:
        self.info = info
        self.resource: Resource = info.resource
        self.version = info.resource.version
        self.builtin = registry.find(info.resource)
        self.converter = converter if self.builtin is None else self.builtin.view
        self._since = since_revision if info.crd else 0
        self._always_differs = (
            self.converter is not None or self.storage_api_version != self.resource.api_version
        )
        self._schema: SchemaNode | None = None
        self._fields: Mapping[str, Getter] | None = None
        self._views: OrderedDict[int, tuple[Object, bytes]] = OrderedDict()
        self.converted: OrderedDict[int, Stored] = OrderedDict()
        """What a webhook has converted to this version, by revision."""
        self.turn = asyncio.Lock()
        """Held by the watcher that has changes converted."""
        self.watches: WeakSet[Watch] = WeakSet()
        """The watches of this version, which end when it is served no more."""

    @property
    def schema(self) -> SchemaNode:
        """The compiled schema of this version."""
        if self._schema is None:
            resource = self.resource
            if self.info.crd:
                schema = self.info.schema
                self._schema = schemas.from_crd(msgspec.json.decode(schema)) if schema else schemas.UNTYPED
            else:
                self._schema = schemas.builtin((resource.group, resource.version, resource.kind))
        return self._schema

    @property
    def fields(self) -> Mapping[str, Getter]:
        """The fields that a field selector may name."""
        if self._fields is None:
            self._fields = registry.selectable_fields(self.info)
        return self._fields

    @property
    def storage_api_version(self) -> str:
        """`apiVersion` of the stored form."""
        if self.info.view_of is not None:
            return self.info.view_of.api_version
        if self.info.storage_version:
            return f"{self.resource.group}/{self.info.storage_version}"
        return self.resource.api_version

    def key(self, namespace: str | None, name: str) -> str:
        """Return the store key of an object."""
        return keys.of(self.info.storage, namespace, name)

    def prefix(self, namespace: str | None) -> str:
        """Return the key prefix of a collection; None is all namespaces."""
        return keys.under(self.info.storage, namespace)

    def view(self, stored: Stored) -> Object:
        """Return an object in this version. Shared: do not change it."""
        return self._translated(stored)[0] if self._differs(stored) else stored.obj

    def encoded(self, stored: Stored) -> bytes:
        """Return an object's JSON in this version."""
        return self._translated(stored)[1] if self._differs(stored) else stored.encoded

    def is_native(self, stored: Stored) -> bool:
        """Return whether an object lies in the store in this version."""
        # Objects are written with their apiVersion first: most need not be decoded.
        head = b'{"apiVersion":"' + self.resource.api_version.encode() + b'"'
        return stored.encoded.startswith(head) or stored.obj.get("apiVersion") == self.resource.api_version

    def keep(self, stored: Stored) -> None:
        """Keep an object that a webhook has converted to this version, for a while."""
        self.converted[stored.revision] = stored
        self.converted.move_to_end(stored.revision)
        self._views.pop(stored.revision, None)
        if len(self.converted) > _CACHED_CONVERSIONS:
            self.converted.popitem(last=False)

    def to_storage(self, obj: Object) -> Object:
        """Return an object of this version as the store keeps it."""
        if self.converter is not None:
            obj = self.converter.to_storage(obj)
        if obj.get("apiVersion") != self.storage_api_version:
            obj = {**obj, "apiVersion": self.storage_api_version}
        return obj

    def _differs(self, stored: Stored) -> bool:
        if self.info.conversion and not self.is_native(stored):
            raise internal(f"{stored.key} was not converted to {self.resource.api_version}")
        # Written before the definition changed: new defaults apply when it is read, and the version in
        # which it was stored may be another one.
        return self._always_differs or stored.revision < self._since

    def _translated(self, stored: Stored) -> tuple[Object, bytes]:
        held = self._views.get(stored.revision)
        if held is not None:
            return held
        obj = stored.obj
        if self.converter is not None:
            obj = self.converter.from_storage(obj)
        if obj.get("apiVersion") != self.resource.api_version:
            obj = {**obj, "apiVersion": self.resource.api_version}
        if self.info.crd and self.schema.with_defaults:
            obj = apply_defaults(obj, self.schema)
        held = (obj, encode_json(obj))
        self._views[stored.revision] = held
        if len(self._views) > _CACHED_VIEWS:
            self._views.popitem(last=False)
        return held

    def missing(self, name: str) -> ApiError:
        """Return the 404 of this resource."""
        return not_found(self.resource.plural, self.resource.group, name)


class Kinds:
    """The kinds of a registry, made when first asked for and again after a CRD changed.

    `conversions` say how versions of custom resources translate, by group, version and plural; others differ from the
    stored form in nothing but their name.
    """

    def __init__(
        self, registry: Registry, conversions: Mapping[tuple[str, str, str], View] | None = None
    ) -> None:
        self.registry = registry
        self._conversions = conversions or {}
        self.definitions: dict[str, int] = {}
        """The store revision at which each CRD's spec last changed, by name."""
        self.specs: dict[str, bytes] = {}
        """A digest of the spec of each CRD that is served, by name."""
        self.terminating: dict[str, tuple[int, bool]] = {}
        """Whether a CRD is being deleted, and at which revision that was seen, by name."""
        self._kinds: dict[tuple[str, str, str], ServedKind] = {}

    def get(self, group: str, version: str, plural: str) -> ServedKind | None:
        """Return the kind served at a path, or None."""
        info = self.registry.get(group, version, plural)
        if info is None:
            return None
        path = (group, version, plural)
        kind = self._kinds.get(path)
        if kind is None or kind.info is not info:
            since, before = self.definitions.get(info.crd_name, 0), kind
            kind = self._kinds[path] = ServedKind(info, since, self._conversions.get(path))
            if before is not None:
                kind.watches = before.watches
        return kind

    def end_watches(self, definition: str) -> None:
        """End the watches of all versions of a CRD that are served no more, once they have told what they know."""
        for path, kind in self._kinds.items():
            if kind.info.crd_name == definition and self.registry.get(*path) is None:
                for watch in tuple(kind.watches):
                    watch.close()

    def of(self, resource: Resource) -> ServedKind:
        """Return the kind of a resource that is always served."""
        kind = self.get(resource.group, resource.version, resource.plural)
        assert kind is not None, resource
        return kind
