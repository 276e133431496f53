"""OpenAPI v3 documents, one per group and version, and the root that names them.

kubectl reads them before almost every write: a `patch` operation that carries the kind and takes
`fieldValidation` is how it learns that the server validates (KEP-2885), the schemas are what `explain`
prints. The root names each document with a hash of its content, so clients keep a document for as long as
its hash stands: the hash has to change when a CRD does.

OpenAPI v2 is not published. Old clients insist on an answer; `V2_PROTOBUF` and `v2_json` are the smallest
that they take.
"""

from __future__ import annotations

import hashlib

import msgspec

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resourceinfo import ResourceInfo, SubresourceInfo
from trainshed.kube.patch.types import APPLY, JSON, MERGE, STRATEGIC
from trainshed.kube.schema.definitions import KUBERNETES_MINOR
from trainshed.kube.served.openapi_schemas import component_name, components, reference
from trainshed.kube.served.registry import Registry

V2_PROTOBUF = b""
"""Body for clients that ask for OpenAPI v2 as protobuf: an empty message is a valid document."""

_FORMAT = 1  # raise when the way documents are built changes, so that cached copies are dropped
_PATCH_TYPES = (APPLY, JSON, MERGE, STRATEGIC)


def v2_json(version: str) -> Object:
    """Return a valid, empty OpenAPI v2 document; `version` is the server's git version."""
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": {},
        "definitions": {},
    }


def gv_path(group: str, version: str) -> str:
    """Return the path of a group and version without leading slash: `api/v1`, `apis/apps/v1`."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


class OpenAPI:
    """The documents of a registry. Encoded documents are kept until their resources change."""

    def __init__(self, registry: Registry, version: str) -> None:
        self._registry = registry
        self._version = version
        self._documents: dict[tuple[str, str], tuple[str, bytes]] = {}
        self._hashes: dict[tuple[str, str], str] = {}
        self._revision = -1

    def root(self) -> Object:
        """Return the document at `/openapi/v3`."""
        paths: Object = {}
        for group in self._registry.groups():
            for version in self._registry.versions(group):
                path = gv_path(group, version)
                if self._unknown(group, version):
                    continue
                digest = self.hash(group, version)
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return {"paths": paths}

    def _unknown(self, group: str, version: str) -> bool:
        """Return whether another server serves this, and says nothing of its schemas."""
        external = self._registry.external(group, version)
        return external is not None and not external.openapi

    def hash(self, group: str, version: str) -> str:
        """Return the hash that names the document of a group and version at this moment."""
        if self._revision != self._registry.revision:
            self._revision = self._registry.revision
            self._hashes.clear()
        key = (group, version)
        if key not in self._hashes:
            external = self._registry.external(group, version)
            if external is not None:
                text = external.openapi
            else:
                infos = self._registry.resources(group, version)
                text = msgspec.json.encode([_FORMAT, KUBERNETES_MINOR, self._version, infos], order="sorted")
            self._hashes[key] = hashlib.sha256(text).hexdigest().upper()
        return self._hashes[key]

    def document(self, group: str, version: str) -> bytes | None:
        """Return the encoded document of a group and version, or None when it is not served."""
        external = self._registry.external(group, version)
        if external is not None:
            return external.openapi or None
        infos = self._registry.resources(group, version)
        if not infos:
            return None
        digest = self.hash(group, version)
        held = self._documents.get((group, version))
        if held is None or held[0] != digest:
            encoded = msgspec.json.encode(build(infos, self._version))
            held = self._documents[(group, version)] = (digest, encoded)
        return held[1]


def build(infos: list[ResourceInfo], version: str) -> Object:
    """Return the document of one group and version; `infos` are its resources, at least one."""
    paths: dict[str, Object] = {}
    for info in infos:
        _add_paths(info, paths)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": paths,
        "components": {"schemas": components(infos)},
    }


def _query(name: str, kind: str, description: str) -> Object:
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": {"type": kind, "uniqueItems": True},
    }


_DRY_RUN = _query("dryRun", "string", "`All` processes the request fully and stores nothing.")
_FIELD_MANAGER = _query("fieldManager", "string", "Name of the actor that makes the change.")
_FIELD_VALIDATION = _query(
    "fieldValidation", "string", "What happens to unknown or duplicate fields: `Ignore`, `Warn` or `Strict`."
)
_FORCE = _query("force", "boolean", "Take fields over from other managers; for apply patches only.")
_WRITE = [_DRY_RUN, _FIELD_MANAGER, _FIELD_VALIDATION]
_LIST = [
    _query("continue", "string", "Token of the previous page."),
    _query("fieldSelector", "string", "Return objects whose fields match."),
    _query("labelSelector", "string", "Return objects whose labels match."),
    _query("limit", "integer", "Objects per page."),
    _query("resourceVersion", "string", "Version of the collection to answer at."),
    _query(
        "resourceVersionMatch", "string", "How `resourceVersion` is understood: `Exact` or `NotOlderThan`."
    ),
    _query("timeoutSeconds", "integer", "Seconds after which a watch ends."),
    _query("watch", "boolean", "Stream changes instead of returning the list."),
]
_DELETE = [
    _DRY_RUN,
    _query("gracePeriodSeconds", "integer", "Seconds that the object is given to end."),
    _query("propagationPolicy", "string", "`Orphan`, `Background` or `Foreground`."),
]


def _path_parameter(name: str) -> Object:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": f"{name} of the object",
        "schema": {"type": "string", "uniqueItems": True},
    }


class _Kind(msgspec.Struct, frozen=True):
    group: str
    version: str
    kind: str

    def schema(self) -> Object:
        return reference(component_name(self.group, self.version, self.kind))

    def wire(self) -> Object:
        return {"group": self.group, "kind": self.kind, "version": self.version}


_METHODS = {
    "list": "get",
    "get": "get",
    "create": "post",
    "update": "put",
    "patch": "patch",
    "delete": "delete",
    "deletecollection": "delete",
}
_PARAMETERS = {
    "list": _LIST,
    "get": [],
    "create": _WRITE,
    "update": _WRITE,
    "patch": [*_WRITE, _FORCE],
    "delete": _DELETE,
    "deletecollection": [*_DELETE, *_LIST[:4]],
}


def _operation(
    verb: str, what: str, kind: _Kind, answer: _Kind, identifier: str, *, custom: bool = False
) -> Object:
    out: Object = {
        "operationId": identifier,
        "description": f"{verb} {what}",
        "x-kubernetes-action": verb,
        "x-kubernetes-group-version-kind": kind.wire(),
        "parameters": _PARAMETERS[verb],
        "responses": {
            "201" if verb == "create" else "200": {
                "description": "Created" if verb == "create" else "OK",
                "content": {"application/json": {"schema": answer.schema()}},
            }
        },
    }
    if verb in ("create", "update"):
        out["requestBody"] = {"required": True, "content": {"*/*": {"schema": kind.schema()}}}
    elif verb == "patch":
        body = {"schema": {"type": "object"}}
        # kubectl 1.29 and newer choose the patch from this list. Custom kinds have no merge keys.
        types = [t for t in _PATCH_TYPES if not (custom and t == STRATEGIC)]
        out["requestBody"] = {"required": True, "content": dict.fromkeys(types, body)}
    return out


def _add_paths(info: ResourceInfo, paths: dict[str, Object]) -> None:
    resource = info.resource
    kind = _Kind(resource.group, resource.version, resource.kind)
    list_kind = _Kind(resource.group, resource.version, info.list_kind)
    base = "/" + gv_path(resource.group, resource.version)
    prefix = f"{base}/namespaces/{{namespace}}" if resource.namespaced else base
    scope = [_path_parameter("namespace")] if resource.namespaced else []
    collection: Object = {}
    item: Object = {}
    for verb in ("list", "create", "deletecollection"):
        if verb in info.verbs:
            answer = list_kind if verb == "list" else kind
            identifier = _identifier(verb, resource.namespaced, kind, resource.plural)
            collection[_METHODS[verb]] = _operation(verb, resource.plural, kind, answer, identifier)
    for verb in ("get", "update", "patch", "delete"):
        if verb in info.verbs:
            identifier = _identifier(verb, resource.namespaced, kind, resource.plural)
            item[_METHODS[verb]] = _operation(verb, resource.plural, kind, kind, identifier, custom=info.crd)
    if collection:
        paths[f"{prefix}/{resource.plural}"] = {**collection, "parameters": scope}
    if resource.namespaced and "list" in info.verbs:
        operation = _operation(
            "list", resource.plural, kind, list_kind, _identifier("list", False, kind, resource.plural)
        )
        paths[f"{base}/{resource.plural}"] = {"get": operation}
    named = [_path_parameter("name"), *scope]
    if item:
        paths[f"{prefix}/{resource.plural}/{{name}}"] = {**item, "parameters": named}
    for name, sub in sorted(info.subresources.items()):
        paths[f"{prefix}/{resource.plural}/{{name}}/{name}"] = {
            **_subresource(info, kind, name, sub),
            "parameters": named,
        }


def _subresource(info: ResourceInfo, parent: _Kind, name: str, sub: SubresourceInfo) -> Object:
    kind = parent
    if sub.kind:
        # Options (PodExecOptions) travel in the query, not in a body: they have no schema of their own.
        kind = _Kind(sub.group, sub.version, sub.kind) if sub.version else parent
    out: Object = {}
    for verb in sub.verbs:
        what = f"{info.resource.plural}/{name}"
        identifier = _identifier(verb, info.resource.namespaced, parent, what)
        out[_METHODS[verb]] = _operation(verb, what, kind, kind, identifier, custom=info.crd)
    return out


def _identifier(verb: str, namespaced: bool, kind: _Kind, what: str) -> str:
    """Return an operationId, unique within the document."""
    group = (kind.group.split(".")[0] or "core").capitalize()
    path = "".join(part.capitalize() for part in what.split("/"))
    return f"{verb}{group}{kind.version.capitalize()}{'Namespaced' if namespaced else ''}{path}"
