"""What sequences are made of: requests, and the objects in them."""

from __future__ import annotations

from typing import Any

import msgspec

from trainshed.kube.meta.objects import Object
from trainshed.kube.patch.types import APPLY, MERGE, STRATEGIC
from trainshed.kube.patch.types import JSON as JSON_PATCH

JSON = "application/json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
NS = "/api/v1/namespaces/{ns}"
APPS = "/apis/apps/v1/namespaces/{ns}"
BATCH = "/apis/batch/v1/namespaces/{ns}"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Step(msgspec.Struct, frozen=True):
    """One request. `{ns}` in the path and in text of the body stands for the sequence's namespace."""

    method: str
    path: str
    body: Any = None
    query: dict[str, str] = {}
    content_type: str | None = JSON
    accept: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


def wait(seconds: int) -> Step:
    """Return a pause that a real server needs to take notice of a policy or a webhook; it has no answer."""
    return Step("WAIT", str(seconds))


def watch(path: str, accept: str = JSON, **query: str) -> Step:
    """Return a watch of a second; those that follow each other run at the same time."""
    return Step("GET", path, query={"watch": "1", "timeoutSeconds": "1", **query}, accept=accept)


def as_user(step: Step, user: str, *groups: str, **extra: str) -> Step:
    """Return a request on behalf of somebody."""
    said = [("Impersonate-User", user)] if user else []
    said += [("Impersonate-Group", group) for group in groups[:1]]
    said += [(f"Impersonate-Extra-{name}", value) for name, value in extra.items()]
    return msgspec.structs.replace(step, headers=tuple(said))


def get(path: str, accept: str = JSON, **query: str) -> Step:
    return Step("GET", path, query=query, accept=accept)


def post(path: str, body: Any, **query: str) -> Step:
    return Step("POST", path, body, query)


def put(path: str, body: Any, **query: str) -> Step:
    return Step("PUT", path, body, query)


def delete(path: str, body: Any = None, **query: str) -> Step:
    return Step("DELETE", path, body, query)


def merge(path: str, body: Any, **query: str) -> Step:
    return Step("PATCH", path, body, query, MERGE)


def strategic(path: str, body: Any, **query: str) -> Step:
    return Step("PATCH", path, body, query, STRATEGIC)


def json_patch(path: str, body: Any, **query: str) -> Step:
    return Step("PATCH", path, body, query, JSON_PATCH)


def apply(path: str, body: Any, manager: str = "recorder", **query: str) -> Step:
    return Step("PATCH", path, body, {"fieldManager": manager, **query}, APPLY)


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Object:
    named = {"name": name} if name else {}
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**named, **metadata}}
    return {**whole, "data": data} if data else whole


def pod(name: str, spec: Object | None = None, container: Object | None = None, **metadata: Any) -> Object:
    one = {"name": "main", "image": "train:1", **(container or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [one], **(spec or {})},
    }


def deployment(name: str, **spec: Any) -> Object:
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "train:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def batch_job(name: str, spec: Object | None = None, container: Object | None = None) -> Object:
    template = {
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "train:1", **(container or {})}],
        }
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **(spec or {})},
    }


def service(name: str, **spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def crd(schema: Object, plural: str = "widgets", **version: Any) -> Object:
    """Return the definition of Widgets in a group that is named after the namespace."""
    names = {
        "plural": plural,
        "singular": plural[:-1],
        "kind": plural[:-1].title(),
        "listKind": plural.title()[:-1] + "List",
    }
    versions = [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version},
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{{ns}}.example.com"},
        "spec": {"group": "{ns}.example.com", "scope": "Namespaced", "names": names, "versions": versions},
    }


def probe(spec_schema: Object, plural: str = "widgets", **version: Any) -> list[Step]:
    """Return what is asked of a definition: to take it, without keeping it."""
    schema = {"type": "object", "properties": {"spec": spec_schema}}
    return [post(CRDS, crd(schema, plural, **version), dryRun="All")]


def rules(*rules: Object, **schema: Any) -> list[Step]:
    return probe({"type": "object", "x-kubernetes-validations": list(rules), **schema})


A_CRD = crd(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1, "maximum": 9},
                    "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
                    "parts": {
                        "type": "array",
                        "maxItems": 3,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {
                                "name": {"type": "string", "maxLength": 8},
                                "count": {"type": "integer"},
                            },
                        },
                    },
                    "port": {"x-kubernetes-int-or-string": True},
                },
                "x-kubernetes-validations": [
                    {
                        "rule": "!has(self.parts) || self.parts.size() <= self.size",
                        "message": "too many parts",
                    },
                    {"rule": "self.size >= oldSelf.size", "message": "cannot shrink", "fieldPath": ".size"},
                ],
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    },
    subresources={
        "status": {},
        "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
    },
    additionalPrinterColumns=[{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
)
WIDGETS = "/apis/{ns}.example.com/v1/namespaces/{ns}/widgets"


def widget(name: str, **spec: Any) -> Object:
    return {"apiVersion": "{ns}.example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}
