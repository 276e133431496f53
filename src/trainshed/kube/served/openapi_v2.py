"""OpenAPI v2: one document of all that is served, derived from what is published as v3.

Clients read it whole, so it is made part by part, and never held as one value: it has several megabytes.

Source of what v2 cannot say and so leaves out: `pkg/controller/openapi/v2/conversion.go` of apiextensions-apiserver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resourceinfo import ResourceInfo
from trainshed.kube.served.openapi_paths import paths, referred
from trainshed.kube.served.openapi_schemas import components
from trainshed.kube.wire import gnostic

_V3, _V2 = "#/components/schemas/", "#/definitions/"
_SECURITY = "BearerToken"
_KEY = {
    "type": "apiKey",
    "name": "authorization",
    "in": "header",
    "description": "Bearer Token authentication",
}
_UNSAID = ("default", "nullable", "oneOf", "anyOf", "not", "allOf")
_NUMBER_OR_TEXT = [{"type": "string"}, {"type": "number"}]
"""What a quantity is, which v2 calls a string."""
_OF_SHAPE = ("type", "items", "properties")


def encoded(groups: Iterable[list[ResourceInfo]], version: str, *, protobuf: bool) -> bytes:
    """Return the document of these resources, by group and version, as JSON or as protobuf."""
    info = {"title": "Kubernetes", "version": version}
    listed = list(groups)
    if protobuf:
        parts = [gnostic.document_head(info)]
        parts += [gnostic.path_item(path, item) for path, item in v2_paths(listed)]
        parts += [gnostic.definition(name, schema) for name, schema in v2_definitions(listed)]
        return b"".join([*parts, gnostic.security(_SECURITY, _KEY)])
    tail = {"securityDefinitions": {_SECURITY: _KEY}, "security": [{_SECURITY: []}]}
    return b"".join(
        [
            b'{"swagger":"2.0","info":' + msgspec.json.encode(info) + b',"paths":{',
            b",".join(_member(*each) for each in v2_paths(listed)),
            b'},"definitions":{',
            b",".join(_member(*each) for each in v2_definitions(listed)),
            b"}," + msgspec.json.encode(tail)[1:],
        ]
    )


def _member(name: str, value: Object) -> bytes:
    return msgspec.json.encode(name) + b":" + msgspec.json.encode(value)


def v2_paths(groups: Iterable[list[ResourceInfo]]) -> Iterator[tuple[str, Object]]:
    """Yield the paths of a document."""
    for infos in groups:
        for path, item in paths(infos):
            yield (
                path,
                {
                    key: [_parameter(each) for each in value] if key == "parameters" else _operation(value)
                    for key, value in item.items()
                },
            )


def v2_definitions(groups: Iterable[list[ResourceInfo]]) -> Iterator[tuple[str, Object]]:
    """Yield the definitions of a document, each once."""
    known: set[str] = set()
    for infos in groups:
        for name, schema in components(infos, referred(infos), known).items():
            if name not in known:
                known.add(name)
                yield name, v2_schema(schema)


def v2_schema(node: Any) -> Any:
    """Return a schema without what v2 has no words for."""
    if not isinstance(node, dict):
        return node
    one: list[Object] = node.get("allOf") or []
    if len(one) == 1 and "$ref" in one[0] and "type" not in node:
        node = {**one[0], **node}
    silent = set(_UNSAID)
    if node.get("nullable"):
        silent.update(_OF_SHAPE)
    if node.get("x-kubernetes-preserve-unknown-fields"):
        silent.update(("items", "properties"))
    if node.get("x-kubernetes-int-or-string"):
        silent.add("type")
    out: Object = {}
    for key, value in node.items():
        if key in silent:
            continue
        if key == "$ref":
            out[key] = value.replace(_V3, _V2)
        elif key == "properties":
            out[key] = {name: v2_schema(child) for name, child in value.items()}
        elif key in ("items", "additionalProperties"):
            out[key] = v2_schema(value)
        else:
            out[key] = value
    if node.get("format") == "int-or-string" or node.get("oneOf") == _NUMBER_OR_TEXT:
        out["type"] = "string"
    return out


def _operation(operation: Object) -> Object:
    body = operation.get("requestBody")
    answers = operation["responses"]
    produced = next(iter(answers.values())).get("content", {})
    out: Object = {
        **{k: v for k, v in operation.items() if k not in ("requestBody", "responses", "parameters")},
        "consumes": _consumed(operation, body, produced),
        "produces": list(produced),
        "schemes": ["https"],
        "responses": {code: _response(answer) for code, answer in answers.items()},
    }
    parameters = [_parameter(each) for each in operation.get("parameters", ())]
    if body:
        schema = v2_schema(next(iter(body["content"].values()))["schema"])
        required = {"required": True} if body.get("required") else {}
        parameters = [{"name": "body", "in": "body", **required, "schema": schema}, *parameters]
    if parameters:
        out["parameters"] = parameters
    return out


def _consumed(operation: Object, body: Object | None, produced: Object) -> list[str]:
    if "x-kubernetes-action" not in operation:  # discovery
        return list(produced)
    return list(body["content"]) if body and "*/*" not in body["content"] else ["*/*"]


def _response(answer: Object) -> Object:
    content = answer.get("content")
    if not content:
        return answer
    schema = v2_schema(next(iter(content.values()))["schema"])
    return {"description": answer["description"], "schema": schema}


def _parameter(parameter: Object) -> Object:
    return {**{k: v for k, v in parameter.items() if k != "schema"}, **parameter["schema"]}
