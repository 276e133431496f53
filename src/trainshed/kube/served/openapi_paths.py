"""The `paths` of OpenAPI documents: what may be asked of a resource, named as generators of clients know it.

Source of shapes and names: the OpenAPI documents of Kubernetes 1.33, and `pkg/endpoints/installer.go` of apiserver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from trainshed.kube.builtin.registry import find
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resourceinfo import ResourceInfo, SubresourceInfo
from trainshed.kube.meta.resources import NAMESPACES
from trainshed.kube.patch.types import APPLY, JSON, MERGE, STRATEGIC
from trainshed.kube.served.openapi_schemas import component_name, reference

DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
PATCH = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"
STATUS = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
WATCH_EVENT = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent"
RESOURCE_LIST = "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList"
_PATCH_TYPES = (APPLY, JSON, MERGE, STRATEGIC)
_PRODUCED = ("application/json", "application/vnd.kubernetes.protobuf", "application/yaml")
_STREAMED = (
    "application/json",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "application/yaml",
)
_CUSTOM = ("application/json", "application/yaml")
_TEXT = {"type": "string"}
_CONNECTS = {
    "attach": "PodAttachOptions",
    "exec": "PodExecOptions",
    "portforward": "PodPortForwardOptions",
    "proxy": "",
}
_METHODS = {
    "list": "get",
    "get": "get",
    "create": "post",
    "update": "put",
    "patch": "patch",
    "delete": "delete",
    "deletecollection": "delete",
    "options": "options",
    "head": "head",
}
_ACTIONS = {"create": "post", "update": "put"}
_NAMES = {"get": "read", "update": "replace", "deletecollection": "delete"}


def gv_path(group: str, version: str) -> str:
    """Return the path of a group and version without leading slash: `api/v1`, `apis/apps/v1`."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def paths(infos: Iterable[ResourceInfo]) -> Iterator[tuple[str, Object]]:
    """Yield the paths of the resources of one group and version, with what may be asked of each."""
    first = True
    for info in infos:
        if first and not info.crd:
            yield _discovery(info)
        first = False
        yield from _Resource(info).paths()


def referred(infos: Iterable[ResourceInfo]) -> list[str]:
    """Return the definitions that the paths of these resources refer to besides those of the resources."""
    verbs = {(verb, info.crd) for info in infos for verb in info.verbs}
    asked = {verb for verb, _ in verbs}
    of = {
        RESOURCE_LIST: any(not crd for _, crd in verbs),
        STATUS: bool(asked & {"delete", "deletecollection"}),
        DELETE_OPTIONS: bool(asked & {"delete", "deletecollection"}),
        PATCH: "patch" in asked,
        WATCH_EVENT: ("watch", False) in verbs,
    }
    return [name for name, is_referred in of.items() if is_referred]


def _query(name: str, kind: str, description: str) -> Object:
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": {"type": kind, "uniqueItems": True},
    }


def _queries(*rows: tuple[str, str, str]) -> list[Object]:
    return [_query(*row) for row in rows]


_PRETTY = _query("pretty", "string", "Has the answer indented.")
_WRITE = _queries(
    ("dryRun", "string", "`All` processes the request fully and stores nothing."),
    ("fieldManager", "string", "Name of the actor that makes the change."),
    (
        "fieldValidation",
        "string",
        "What happens to unknown or duplicate fields: `Ignore`, `Warn` or `Strict`.",
    ),
)
_FORCE = _query("force", "boolean", "Take fields over from other managers; for apply patches only.")
_SELECT = _queries(
    ("continue", "string", "Token of the previous page."),
    ("fieldSelector", "string", "Return objects whose fields match."),
    ("labelSelector", "string", "Return objects whose labels match."),
    ("limit", "integer", "Objects per page."),
    ("resourceVersion", "string", "Version of the collection to answer at."),
    ("resourceVersionMatch", "string", "How `resourceVersion` is understood: `Exact` or `NotOlderThan`."),
    ("sendInitialEvents", "boolean", "Begin a watch with the objects that there are."),
    ("timeoutSeconds", "integer", "Seconds after which a watch ends."),
)
_LIST = [
    *_SELECT,
    *_queries(
        ("allowWatchBookmarks", "boolean", "Have a watch tell how far it has come, by bookmarks."),
        ("watch", "boolean", "Stream changes instead of returning the list."),
    ),
]
_DELETE = [
    _WRITE[0],
    *_queries(
        ("gracePeriodSeconds", "integer", "Seconds that the object is given to end."),
        (
            "ignoreStoreReadErrorWithClusterBreakingPotential",
            "boolean",
            "Delete an object that cannot be read from the store.",
        ),
        ("orphanDependents", "boolean", "Leave what belongs to the object; `propagationPolicy` says more."),
        ("propagationPolicy", "string", "`Orphan`, `Background` or `Foreground`."),
    ),
]
_STREAMS = _queries(
    ("container", "string", "Of which container; without, that of the pod's only one."),
    ("stderr", "boolean", "Connect the standard error."),
    ("stdin", "boolean", "Connect the standard input."),
    ("stdout", "boolean", "Connect the standard output."),
    ("tty", "boolean", "Give the process a terminal."),
)
_OF_SUBRESOURCES = {
    "attach": _STREAMS,
    "exec": [*_STREAMS, _query("command", "string", "A word of the command to run.")],
    "portforward": _queries(("ports", "integer", "A port to forward to.")),
    "proxy": _queries(("path", "string", "What to ask for, of the pod, Service or node.")),
    "log": [
        _STREAMS[0],
        *_queries(
            ("follow", "boolean", "Go on with what is written later."),
            ("insecureSkipTLSVerifyBackend", "boolean", "Take any certificate of the node."),
            ("limitBytes", "integer", "Return no more bytes than this."),
            ("previous", "boolean", "Of the container before its last restart."),
            ("sinceSeconds", "integer", "Begin so many seconds ago."),
            ("stream", "string", "`All`, `Stdout` or `Stderr`."),
            ("tailLines", "integer", "Begin so many lines before the end."),
            ("timestamps", "boolean", "Put its time before each line."),
        ),
    ],
}
_PARAMETERS = {
    "list": _LIST,
    "create": _WRITE,
    "update": _WRITE,
    "patch": [*_WRITE, _FORCE],
    "delete": _DELETE,
    "deletecollection": [*_SELECT, *_DELETE],
}
_SUCCEEDS = {
    "create": ("200", "201", "202"),
    "update": ("200", "201"),
    "patch": ("200", "201"),
    "delete": ("200", "202"),
}
_DESCRIPTIONS = {"200": "OK", "201": "Created", "202": "Accepted", "401": "Unauthorized"}


def _path_parameter(name: str, description: str) -> Object:
    return {
        "name": name,
        "in": "path",
        "description": description,
        "required": True,
        "schema": {"type": "string", "uniqueItems": True},
    }


_NAMESPACE = _path_parameter("namespace", "namespace of the object")
_REST = _path_parameter("path", "what follows in the path")


def _content(schema: Object, types: Iterable[str]) -> Object:
    return {each: {"schema": schema} for each in types}


def _responses(schema: Object, codes: Iterable[str], types: Iterable[str]) -> Object:
    types = tuple(types)
    out: Object = {
        code: {"description": _DESCRIPTIONS[code], "content": _content(schema, types)} for code in codes
    }
    return {**out, "401": {"description": _DESCRIPTIONS["401"]}}


def family(group: str) -> str:
    """Return the name of a group in tags and identifiers: `core`, `apps`, `rbacAuthorization`, `exampleCom`."""
    first, *rest = (group.removesuffix(".k8s.io") or "core").split(".")
    return first + "".join(map(_title, rest))


def _title(word: str) -> str:
    return word[:1].upper() + word[1:]


def _discovery(info: ResourceInfo) -> tuple[str, Object]:
    group, version = info.group_version
    name = family(group)
    get = {
        "tags": [f"{name}_{version}"],
        "description": "get available resources",
        "operationId": f"get{_title(name)}{_title(version)}APIResources",
        "responses": _responses(reference(RESOURCE_LIST), ("200",), _PRODUCED),
    }
    return f"/{gv_path(group, version)}/", {"get": get}


class _Asked(msgspec.Struct, frozen=True):
    """One operation before it has a path: its parameters are told apart from those of the path later."""

    method: str
    operation: Object
    parameters: list[Object]


class _Resource:
    """The paths of one resource."""

    def __init__(self, info: ResourceInfo) -> None:
        self.info = info
        resource = info.resource
        self.base = "/" + gv_path(resource.group, resource.version)
        self.scope = [_NAMESPACE] if resource.namespaced else []
        prefix = "/namespaces/{namespace}" if resource.namespaced else ""
        self.collection = f"{prefix}/{resource.plural}"
        self.item = f"{self.collection}/{{name}}"
        self.named = [_path_parameter("name", f"name of the {resource.kind}"), *self.scope]
        self.own = reference(component_name(resource.group, resource.version, resource.kind))
        self.listed = reference(component_name(resource.group, resource.version, info.list_kind))
        self.produced = _CUSTOM if info.crd else _PRODUCED
        builtin = find(resource)
        # Namespaces are not gone at once and so answer with themselves, too, but nobody says so.
        returns = builtin is not None and builtin.returns_deleted
        self.returns_deleted = returns and resource != NAMESPACES

    def paths(self) -> Iterator[tuple[str, Object]]:
        info, resource = self.info, self.info.resource
        own = [self.asked(verb) for verb in ("list", "create", "deletecollection") if verb in info.verbs]
        yield from self.at(self.collection, own, self.scope)
        of_one = [self.asked(verb) for verb in ("get", "update", "delete", "patch") if verb in info.verbs]
        yield from self.at(self.item, of_one, self.named)
        for name, sub in sorted(info.subresources.items()):
            yield from self.subresource(name, sub)
        everywhere = resource.namespaced and "list" in info.verbs
        if everywhere:
            asked = self.asked("list", suffix="ForAllNamespaces", namespaced=False)
            yield from self.at(f"/{resource.plural}", [asked], [])
        if "watch" in info.verbs and not info.crd:
            yield from self.at(f"/watch{self.collection}", [self.watch("watchlist", "List")], self.scope)
            yield from self.at(f"/watch{self.item}", [self.watch("watch", "")], self.named)
            if everywhere:
                asked = self.watch("watchlist", "ListForAllNamespaces", namespaced=False)
                yield from self.at(f"/watch/{resource.plural}", [asked], [])

    def at(self, path: str, asked: list[_Asked], of_path: list[Object]) -> Iterator[tuple[str, Object]]:
        """Yield a path; parameters that all of its operations have are the path's."""
        if not asked:
            return
        connects = asked[0].operation.get("x-kubernetes-action") == "connect"
        common = [p for p in asked[0].parameters if all(p in each.parameters for each in asked)]
        item: Object = {}
        for each in asked:
            operation = dict(each.operation)
            if rest := [p for p in each.parameters if p not in common]:
                operation["parameters"] = sorted(rest, key=_by_name)
            item[each.method] = operation
        shared = [*common, *of_path, *([] if connects else [_PRETTY])]
        item["parameters"] = sorted(shared, key=_by_name)
        yield self.base + path, item

    def identifier(self, verb: str, what: str = "", *, namespaced: bool | None = None) -> str:
        resource = self.info.resource
        inside = resource.namespaced if namespaced is None else namespaced
        group = _title(family(resource.group)) + _title(resource.version)
        collection = "Collection" if verb == "deletecollection" else ""
        name = _NAMES.get(verb, verb)
        return f"{name}{group}{collection}{'Namespaced' if inside else ''}{resource.kind}{what}"

    def operation(self, verb: str, identifier: str, kind: tuple[str, str, str]) -> Object:
        group, version, name = kind
        resource = self.info.resource
        return {
            "tags": [f"{family(resource.group)}_{resource.version}"],
            "description": f"{verb} {resource.plural}",
            "operationId": identifier,
            "x-kubernetes-action": _ACTIONS.get(verb, verb),
            "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": name},
        }

    def asked(self, verb: str, *, suffix: str = "", namespaced: bool | None = None) -> _Asked:
        """Return an operation on the resource itself."""
        resource = self.info.resource
        gvk = (resource.group, resource.version, resource.kind)
        operation = self.operation(verb, self.identifier(verb, suffix, namespaced=namespaced), gvk)
        return self.completed(verb, operation, self.own)

    def completed(self, verb: str, operation: Object, own: Object) -> _Asked:
        """Return an operation with what is sent and answered."""
        answer: Object = own
        types: tuple[str, ...] = self.produced
        if verb == "list":
            answer = self.listed
            types = self.produced if self.info.crd else _STREAMED
        elif verb == "deletecollection" or (verb == "delete" and not self.returns_deleted):
            answer = reference(STATUS)
        sent: Object = {}
        if verb in ("create", "update"):
            sent = {"content": _content(own, _CUSTOM if self.info.crd else ("*/*",)), "required": True}
        elif verb in ("delete", "deletecollection"):
            sent = {"content": _content(reference(DELETE_OPTIONS), ("*/*",))}
        elif verb == "patch":
            # kubectl 1.29 and newer choose the patch from this list. Custom kinds have no merge keys.
            accepted = [t for t in _PATCH_TYPES if not (self.info.crd and t == STRATEGIC)]
            sent = {"content": _content(reference(PATCH), accepted), "required": True}
        out = {**operation, "responses": _responses(answer, _SUCCEEDS.get(verb, ("200",)), types)}
        if sent:
            out["requestBody"] = sent
        return _Asked(_METHODS[verb], out, _PARAMETERS.get(verb, []))

    def watch(self, action: str, suffix: str, *, namespaced: bool | None = None) -> _Asked:
        resource = self.info.resource
        gvk = (resource.group, resource.version, resource.kind)
        operation = self.operation(action, self.identifier("watch", suffix, namespaced=namespaced), gvk)
        operation["responses"] = _responses(reference(WATCH_EVENT), ("200",), _STREAMED)
        return _Asked("get", operation, _LIST)

    def subresource(self, name: str, sub: SubresourceInfo) -> Iterator[tuple[str, Object]]:
        resource = self.info.resource
        path = f"{self.item}/{name}"
        if name in _CONNECTS:
            yield from self.connect(path, name, sub)
            return
        gvk = (resource.group, resource.version, resource.kind)
        own = self.own
        if sub.kind:
            gvk = (sub.group, sub.version, sub.kind) if sub.version else (*gvk[:2], sub.kind)
            own = reference(component_name(*gvk))
        asked = []
        for verb in sub.verbs:
            operation = self.operation(verb, self.identifier(verb, _title(name)), gvk)
            one = self.completed(verb, operation, own)
            if name == "log":
                one.operation["responses"] = _responses(_TEXT, ("200",), (*_PRODUCED, "text/plain"))
                one = _Asked(one.method, one.operation, _OF_SUBRESOURCES["log"])
            asked.append(one)
        yield from self.at(path, asked, self.named)

    def connect(self, path: str, name: str, sub: SubresourceInfo) -> Iterator[tuple[str, Object]]:
        """Yield the paths of what is connected to, and of what it serves."""
        resource = self.info.resource
        kind = _CONNECTS[name] or f"{resource.kind}ProxyOptions"
        verbs = (*sub.verbs, "head", "options") if name == "proxy" else sub.verbs
        for rest, suffix in (("", ""), ("/{path}", "WithPath")) if name == "proxy" else (("", ""),):
            asked = []
            for verb in verbs:
                method = _METHODS[verb]
                identifier = self.identifier("connect", _title(name) + suffix).replace(
                    _title(resource.version), f"{_title(resource.version)}{_title(method)}", 1
                )
                operation = self.operation("connect", identifier, (resource.group, resource.version, kind))
                operation["responses"] = _responses(_TEXT, ("200",), ("*/*",))
                asked.append(_Asked(method, operation, _OF_SUBRESOURCES[name]))
            yield from self.at(path + rest, asked, [*self.named, *([_REST] if rest else [])])


def _by_name(parameter: Object) -> tuple[str, str]:
    return parameter["name"], parameter["in"]
