"""Requests that nobody sends on purpose: made of the schemas of all kinds, of odd values, and of raw bytes. No I/O."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from trainshed.kube.builtin.registry import RESOURCES
from trainshed.kube.meta.resources import CRDS, Resource
from trainshed.kube.schema import nodes
from trainshed.kube.schema.nodes import SchemaNode

NAMESPACES = ("default", "fuzz", "kube-system", "nowhere", "x" * 64)
NAMES = tuple(f"n{number}" for number in range(24))
CRD_NAMES = ("as.fuzz.io", "bs.fuzz.io", "cs.fuzz.io")
STRINGS = (
    *NAMES[:6],
    "default",
    "",
    "Always",
    "OnFailure",
    "10%",
    "1Gi",
    "-5m",
    "1e400",
    "2027-01-15T08:00:00Z",
    "aGVsbG8=",
    "app=x",
    "self.x > 1",
    "v1",
    "a/b",
    "../../etc/passwd",
    "\u0000",
    "\x1b[31mred",
    "line\nline",
    "é" * 40,
    "\ud83d\ude00",
    "^(a+)+$",
    "a" * 300,
    "${{ x }}",
)
DEEP_LIST: Any = 1
for _ in range(150):
    DEEP_LIST = [DEEP_LIST]
ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**31,
    2**63,
    2**70,
    1.5,
    1e308,
    [],
    {},
    [None],
    [[]],
    {"": None},
    {"a": {"b": {"c": []}}},
    DEEP_LIST,
    ["x"] * 200,
    *STRINGS,
)
SELECTORS = (
    "app=x",
    "a in (b,c)",
    "!a",
    "a in (",
    ",,,",
    "a==b,c!=d",
    "=",
    "metadata.name=n1",
    "spec.x=1",
    "\x00",
)
QUERY = (
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "watch",
    "timeoutSeconds",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "force",
    "gracePeriodSeconds",
    "propagationPolicy",
    "orphanDependents",
    "pretty",
    "includeObject",
    "tailLines",
    "container",
    "command",
)
QUERY_VALUES = (
    "1",
    "0",
    "-1",
    "true",
    "x",
    "",
    "All",
    "Strict",
    "Exact",
    "NotOlderThan",
    "9" * 30,
    "Background",
    *SELECTORS,
)
CONTENT_TYPES = (
    "application/json",
    "application/yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain",
    "",
)
ACCEPTS = (
    "application/json",
    "*/*",
    "application/yaml",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf",
    "image/png",
    ";;;",
)
SUBRESOURCES = (
    "status",
    "scale",
    "log",
    "exec",
    "binding",
    "eviction",
    "token",
    "ephemeralcontainers",
    "finalize",
    "proxy/x",
    "x",
)
OTHER_PATHS = (
    "/",
    "/api",
    "/apis",
    "/version",
    "/healthz",
    "/readyz/etcd",
    "/openapi/v2",
    "/openapi/v3/api/v1",
    "/metrics",
    "/api/v1/watch/pods?timeoutSeconds=1",
    "/apis/fuzz.io/v1",
    "/%2e%2e/%2e%2e",
    "//api//v1//pods",
    "/api/v1/namespaces/default/pods/" + "x" * 5000,
    "/\x7f",
)


@dataclass(frozen=True)
class Case:
    """One request. `raw` is sent as it is instead, when there is any."""

    method: str = "GET"
    path: str = "/"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    raw: bytes = b""

    def encode(self, token: str) -> bytes:
        """Return the bytes to send."""
        if self.raw:
            return self.raw
        head = {
            "Host": "x",
            "Authorization": f"Bearer {token}",
            "Content-Length": str(len(self.body)),
            **self.headers,
        }
        lines = [f"{self.method} {self.path} HTTP/1.1", *(f"{k}: {v}" for k, v in head.items() if v)]
        return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + self.body


class Requests:
    """An endless, repeatable sequence of cases. `custom` are kinds of CRDs that the server has, with their schemas."""

    def __init__(self, seed: int, custom: dict[Resource, SchemaNode]) -> None:
        self._random = random.Random(seed)
        self._schemas = dict(custom)
        for info in RESOURCES:
            r = info.resource
            self._schemas.setdefault(r, nodes.builtin((r.group, r.version, r.kind)))
        self._kinds = list(self._schemas)

    def next(self) -> Case:
        """Return the next case."""
        draw = self._random.random()
        if draw < 0.04:
            return self._raw()
        if draw < 0.10:
            return self._other()
        if draw < 0.15:
            return self._definition()
        return self._object()

    def _pick(self, values: Any) -> Any:
        return self._random.choice(values)

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _raw(self) -> Case:
        junk = self._random.randbytes(self._random.randrange(1, 400))
        return Case(
            raw=self._pick(
                (
                    junk,
                    b"GET / HTTP/1.1\r\n" + junk + b"\r\n\r\n",
                    b"GET /api/v1/pods HTTP/9.9\r\n\r\n",
                    b"POST /api/v1/namespaces HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n" + junk,
                    b"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
                    b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\nabcdef",
                    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + junk,
                    b"GET /api/v1/namespaces/default/pods/n1/exec?command=x HTTP/1.1\r\nHost: x\r\n"
                    b"Connection: Upgrade\r\n"
                    b"Upgrade: websocket\r\nSec-WebSocket-Key: "
                    + junk[:8].hex().encode()
                    + b"\r\n\r\n"
                    + junk,
                    b"GET " + b"/a" * 40_000 + b" HTTP/1.1\r\n\r\n",
                )
            )
        )

    def _other(self) -> Case:
        return Case(self._method(), self._pick(OTHER_PATHS), self._headers(), self._body({}))

    def _method(self) -> str:
        return str(
            self._pick(("GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "FOO"))
        )

    def _query(self) -> str:
        if self._chance(0.6):
            return ""
        pairs = [(self._pick(QUERY), self._pick(QUERY_VALUES)) for _ in range(self._random.randrange(1, 4))]
        # A watch must come to its end while we wait.
        pairs = [
            (k, "1" if k == "timeoutSeconds" and v in ("9" * 30, "0") else v)
            for k, v in pairs
            if k != "watch"
        ]
        return "?" + "&".join(f"{k}={quote(v)}" for k, v in pairs)

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": self._pick(CONTENT_TYPES) if self._chance(0.4) else "application/json"}
        if self._chance(0.3):
            headers["Accept"] = self._pick(ACCEPTS)
        if self._chance(0.03):
            headers["Authorization"] = self._pick(
                ("", "Bearer x", "Basic eDp5", "Bearer a.b.c", "Bearer " + "e30." * 3)
            )
        if self._chance(0.03):
            headers["Impersonate-User"] = self._pick(
                ("x", "system:serviceaccount:x", "system:serviceaccount:a:b", "é")
            )
        if self._chance(0.02):
            headers["Impersonate-Group"] = self._pick(("g", "system:masters", ","))
        return headers

    def _body(self, value: Any) -> bytes:
        if self._chance(0.03):
            return self._random.randbytes(self._random.randrange(200))
        if self._chance(0.01):
            return b"[" * 5000 + b"]" * 5000
        text = json.dumps(value, ensure_ascii=self._chance(0.5))
        data = text.encode("utf-8", "surrogatepass")
        if self._chance(0.02):
            data = data[: self._random.randrange(len(data) + 1)]
        return data

    def _object(self) -> Case:
        resource = self._pick(self._kinds)
        namespace = self._pick(NAMESPACES[:2]) if self._chance(0.95) else self._pick(NAMESPACES)
        name = self._pick(NAMES)
        collection = resource.path(namespace if resource.namespaced else None)
        item = f"{collection}/{name}"
        if self._chance(0.12):
            item += f"/{self._pick(SUBRESOURCES)}"
        headers, query = self._headers(), self._query()
        verb = self._random.choices(
            ("create", "update", "patch", "delete", "get", "list", "collection"), (40, 14, 20, 5, 10, 8, 1)
        )[0]
        if verb == "create":
            path = item if "/" in item[len(collection) + 1 :] else collection
            return Case("POST", path + query, headers, self._body(self._document(resource, namespace, name)))
        if verb == "update":
            return Case("PUT", item + query, headers, self._body(self._document(resource, namespace, name)))
        if verb == "patch":
            headers["Content-Type"] = self._pick(CONTENT_TYPES[2:6])
            document = self._document(resource, namespace, name)
            if "json-patch" in headers["Content-Type"]:
                return Case("PATCH", item + query, headers, self._body(self._json_patch(document)))
            if "apply" in headers["Content-Type"]:
                query += ("&" if query else "?") + "fieldManager=fuzz" + self._pick(("", "&force=true"))
            return Case("PATCH", item + query, headers, self._body(document))
        if verb == "delete":
            options = self._pick(
                ({}, {"gracePeriodSeconds": 0}, {"preconditions": self._pick(ODD)}, self._pick(ODD))
            )
            return Case("DELETE", item + query, headers, self._body(options) if self._chance(0.5) else b"")
        if verb == "get":
            return Case("GET", item + query, headers)
        return Case("GET" if verb == "list" else "DELETE", collection + query, headers)

    def _json_patch(self, document: Any) -> Any:
        paths = (
            "/metadata/labels/a",
            "/spec",
            "/spec/containers/0",
            "/metadata",
            "",
            "/x~0y",
            "/-",
            "/metadata/name",
        )
        operations = ("add", "remove", "replace", "move", "copy", "test", "x")
        return [
            {
                "op": self._pick(operations),
                "path": self._pick(paths),
                "from": self._pick(paths),
                "value": self._pick(ODD),
            }
            for _ in range(self._random.randrange(4))
        ] or document

    def _document(self, resource: Resource, namespace: str, name: str) -> Any:
        if self._chance(0.02):
            return self._pick(ODD)
        body = self._value(self._schemas[resource], 0)
        if not isinstance(body, dict):
            return body
        metadata: Any = {"name": name, "namespace": namespace}
        if self._chance(0.1):
            metadata = self._value(nodes.builtin(("", "v1", "Pod")).properties["metadata"], 0)
        if not resource.namespaced and isinstance(metadata, dict):
            metadata.pop("namespace", None)
        return {**body, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}

    def _value(self, node: SchemaNode, depth: int) -> Any:
        """Return a value that mostly fits the schema."""
        if self._chance(0.04):
            return self._pick(ODD)
        if node.enum and self._chance(0.9):
            return self._pick(list(node.enum))
        if node.type == "object" or node.properties:
            return self._fields(node, depth)
        if node.type == "array":
            count = 0 if depth > 7 else self._random.choice((0, 1, 1, 2))
            return [self._value(node.items, depth + 1) for _ in range(count)] if node.items else []
        if node.type in ("integer", "number"):
            return self._pick((0, 1, 2, 3, 80, 8080, -1, 2**31))
        if node.type == "boolean":
            return self._chance(0.5)
        if node.time:
            return self._pick(("2027-01-15T08:00:00Z", "x"))
        return self._pick(STRINGS)

    def _fields(self, node: SchemaNode, depth: int) -> Any:
        out: dict[str, Any] = {}
        required = [name for name in node.required or () if name in node.properties]
        others = [name for name in node.properties if name not in required]
        wanted = required if self._chance(0.93) else required[:-1]
        if depth < 8 and others:
            wanted = [*wanted, *self._random.sample(others, min(len(others), self._pick((0, 1, 1, 2, 3))))]
        if depth == 0:
            wanted = [*wanted, *(name for name in ("spec", "data", "rules") if name in node.properties)]
        for name in wanted:
            out[name] = self._value(node.properties[name], depth + 1)
        if node.additional is not None and depth < 8:
            for _ in range(self._pick((0, 1, 2))):
                out[self._pick(STRINGS)] = self._value(node.additional, depth + 1)
        if self._chance(0.02):
            out[self._pick(STRINGS)] = self._pick(ODD)
        return out

    def _definition(self) -> Case:
        """Return a CustomResourceDefinition with a schema of any shape, or an object of one."""
        name = self._pick(CRD_NAMES)
        plural = name.partition(".")[0]
        if self._chance(0.4):
            path = f"/apis/fuzz.io/v1/namespaces/default/{plural}"
            body = {
                "apiVersion": "fuzz.io/v1",
                "kind": plural.upper(),
                "metadata": {"name": self._pick(NAMES)},
            }
            return Case(
                "POST",
                path,
                self._headers(),
                self._body({**body, "spec": self._pick(ODD), "x": self._pick(ODD)}),
            )
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": self._schema(0)},
            **({"additionalPrinterColumns": self._pick(ODD)} if self._chance(0.1) else {}),
            **({"subresources": {"status": {}}} if self._chance(0.3) else {}),
            **({"deprecated": True, "deprecationWarning": self._pick(STRINGS)} if self._chance(0.1) else {}),
        }
        names = {"plural": plural, "kind": plural.upper(), "singular": plural[:-1]}
        spec = {"group": "fuzz.io", "scope": "Namespaced", "names": names, "versions": [version]}
        if self._chance(0.1):
            spec[self._pick(list(spec))] = self._pick(ODD)
        body = {"apiVersion": CRDS.api_version, "kind": CRDS.kind, "metadata": {"name": name}, "spec": spec}
        if self._chance(0.3):
            return Case("DELETE", f"{CRDS.path(None)}/{name}")
        return Case("POST", CRDS.path(None), self._headers(), self._body(body))

    def _schema(self, depth: int) -> Any:
        if self._chance(0.05):
            return self._pick(ODD)
        kind = self._pick(("object", "object", "array", "string", "integer", "boolean", "number", "x"))
        out: dict[str, Any] = {"type": "object" if depth == 0 and self._chance(0.95) else kind}
        if out["type"] == "object" and depth < 5:
            fields = self._random.sample(("spec", "x", "y", "a b", "$x"), self._random.randrange(1, 4))
            out["properties"] = {name: self._schema(depth + 1) for name in fields}
        if out["type"] == "array" and depth < 5:
            out["items"] = self._schema(depth + 1)
        extras = {
            "pattern": self._pick(("^(a+)+$", "[", "(?=x)", "^x$")),
            "default": self._pick(ODD),
            "x-kubernetes-validations": [
                {"rule": self._pick(("self.x > 1", "true", "self ==", "self.all(a, a)", ""))}
            ],
            "x-kubernetes-list-type": self._pick(("map", "set", "atomic", "x")),
            "x-kubernetes-preserve-unknown-fields": True,
            "x-kubernetes-int-or-string": True,
            "enum": self._pick((["a"], [], [1, None])),
            "anyOf": [{"type": "string"}],
            "format": self._pick(("date-time", "int32", "x")),
            "minimum": self._pick((0, "x", -1)),
            "nullable": True,
            "additionalProperties": self._pick((True, {"type": "string"}, 1)),
        }
        for name, value in extras.items():
            if self._chance(0.08):
                out[name] = value
        return out
