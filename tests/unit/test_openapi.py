"""Every published document is closed (each reference resolves) and carries what kubectl looks for."""

from __future__ import annotations

import functools
import re
from typing import Any

import msgspec
import pytest

from tests.unit.test_registry import make_custom
from trainshed.kube.builtin.registry import RESOURCES
from trainshed.kube.served.openapi import OpenAPI
from trainshed.kube.served.openapi_paths import gv_path
from trainshed.kube.served.openapi_v2 import v2_schema
from trainshed.kube.served.registry import Registry

GROUP_VERSIONS = sorted({info.group_version for info in RESOURCES})


def _encoded(registry: Registry, group: str, version: str) -> bytes:
    encoded = OpenAPI(registry, "v1.33.2").document(group, version)
    assert encoded is not None
    return encoded


def _document(registry: Registry, group: str, version: str) -> Any:
    return msgspec.json.decode(_encoded(registry, group, version))


@functools.cache
def _builtin(group: str, version: str) -> Any:
    """Return the document of built-in kinds, which no test changes: it is looked at once for each of them."""
    return _document(Registry(), group, version)


def _operations(document: Any) -> list[Any]:
    return [
        operation
        for path in document["paths"].values()
        for method, operation in path.items()
        if method != "parameters"
    ]


@pytest.mark.parametrize(("group", "version"), GROUP_VERSIONS, ids=[gv_path(*gv) for gv in GROUP_VERSIONS])
def test_document_is_closed_and_without_json_schema_leftovers(group: str, version: str) -> None:
    text = _encoded(Registry(), group, version).decode()
    document = msgspec.json.decode(text)
    referred = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert referred <= document["components"]["schemas"].keys()
    assert "$defs" not in text
    assert '"null"' not in text
    names = [operation["operationId"] for operation in _operations(document)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "info", [i for i in RESOURCES if "patch" in i.verbs], ids=lambda i: i.resource.group_resource
)
def test_patch_carries_kind_and_field_validation(info: Any) -> None:
    document = _builtin(*info.group_version)
    kind = {"group": info.resource.group, "version": info.resource.version, "kind": info.resource.kind}
    patches = [path["patch"] for path in document["paths"].values() if "patch" in path]
    found = [patch for patch in patches if patch["x-kubernetes-group-version-kind"] == kind]
    assert found
    assert all("fieldValidation" in {p["name"] for p in patch["parameters"]} for patch in found)
    schemas = document["components"]["schemas"].values()
    assert [s for s in schemas if kind in s.get("x-kubernetes-group-version-kind", ())]


def test_explain_reads_descriptions_and_references() -> None:
    schemas = _builtin("apps", "v1")["components"]["schemas"]
    spec = schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]
    assert spec["replicas"]["type"] == "integer"
    assert "desired pods" in spec["replicas"]["description"]
    assert spec["template"]["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodTemplateSpec"}]
    assert "enum" not in schemas["io.k8s.api.apps.v1.Deployment"]["properties"]["kind"]


def test_custom_resource_has_its_schema_and_metadata() -> None:
    registry = Registry()
    schema = {"type": "object", "properties": {"spec": {"type": "object", "description": "what to run"}}}
    registry.add(
        "pytorchjobs.kubeflow.org",
        [msgspec.structs.replace(make_custom(), schema=msgspec.json.encode(schema))],
    )
    document = _document(registry, "kubeflow.org", "v1")
    job = document["components"]["schemas"]["org.kubeflow.v1.PyTorchJob"]
    assert job["properties"]["spec"]["description"] == "what to run"
    assert job["properties"]["metadata"]["allOf"][0]["$ref"].endswith("meta.v1.ObjectMeta")
    items = document["components"]["schemas"]["org.kubeflow.v1.PyTorchJobList"]["properties"]["items"]
    assert items["items"]["allOf"] == [{"$ref": "#/components/schemas/org.kubeflow.v1.PyTorchJob"}]
    assert "/apis/kubeflow.org/v1/namespaces/{namespace}/pytorchjobs/{name}" in document["paths"]


def test_hash_changes_with_the_crd_only_where_it_is_served() -> None:
    registry = Registry()
    documents = OpenAPI(registry, "v1.33.2")
    before = documents.root()["paths"]
    registry.add("pytorchjobs.kubeflow.org", [make_custom()])
    added = documents.root()["paths"]
    assert set(added) - set(before) == {"apis/kubeflow.org/v1"}
    assert added["apis/apps/v1"] == before["apis/apps/v1"]
    first = documents.document("kubeflow.org", "v1")
    changed = msgspec.structs.replace(make_custom(), schema=b'{"type": "object", "description": "new"}')
    registry.add("pytorchjobs.kubeflow.org", [changed])
    after = documents.root()["paths"]
    assert after["apis/kubeflow.org/v1"] != added["apis/kubeflow.org/v1"]
    assert documents.document("kubeflow.org", "v1") != first
    registry.remove("pytorchjobs.kubeflow.org")
    assert documents.root()["paths"] == before
    assert documents.document("kubeflow.org", "v1") is None


def _fields(data: bytes) -> list[tuple[int, bytes]]:
    """Return the length-delimited fields of a protobuf message."""
    out, at = [], 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 2:
            length = varint()
            out.append((key >> 3, data[at : at + length]))
            at += length
        else:
            assert key & 7 == 0, "a number of another width"
            varint()
    return out


def test_version_2_is_closed_and_the_same_as_protobuf() -> None:
    documents = OpenAPI(Registry(), "v1.33.2")
    text = documents.whole(protobuf=False).decode()
    document = msgspec.json.decode(text)
    referred = set(re.findall(r'"#/definitions/([^"]+)"', text))
    assert referred <= document["definitions"].keys()
    assert "#/components" not in text
    sent = _fields(documents.whole(protobuf=True))
    assert [data for number, data in sent if number == 1] == [b"2.0"]

    def names(number: int, of_list: int) -> list[str]:
        lists = [data for field, data in sent if field == number]
        members = [data for each in lists for field, data in _fields(each) if field == of_list]
        return [dict(_fields(member))[1].decode() for member in members]

    assert names(9, 1) == list(document["definitions"])
    assert names(8, 2) == list(document["paths"])
    pod = next(
        dict(_fields(member))[2]
        for field, data in sent
        if field == 9
        for _, member in _fields(data)
        if dict(_fields(member))[1] == b"io.k8s.api.core.v1.Pod"
    )
    extension = dict(_fields(dict(_fields(dict(_fields(pod))[31]))[2]))
    assert msgspec.json.decode(extension[2]) == [{"group": "", "kind": "Pod", "version": "v1"}]


def test_version_2_leaves_out_what_it_has_no_words_for() -> None:
    node = {
        "type": "object",
        "nullable": True,
        "properties": {"a": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": "true"}],
    }
    either = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {}}}
    whole = {"type": "object", "properties": {"n": node, "e": either, "l": loose}}
    assert v2_schema(whole)["properties"] == {
        "n": {"x-kubernetes-validations": [{"rule": "true"}]},
        "e": {"x-kubernetes-int-or-string": True},
        "l": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    told = {"allOf": [{"$ref": "#/components/schemas/a.B"}], "default": {}, "description": "b"}
    assert v2_schema(told) == {"$ref": "#/definitions/a.B", "description": "b"}


def test_the_hash_of_version_2_changes_with_what_is_served() -> None:
    registry = Registry()
    documents = OpenAPI(registry, "v1.33.2")
    before = documents.whole_hash(protobuf=True)
    assert before != documents.whole_hash(protobuf=False)
    registry.add("pytorchjobs.kubeflow.org", [make_custom()])
    assert documents.whole_hash(protobuf=True) != before
    assert b"org.kubeflow.v1.PyTorchJob" in documents.whole(protobuf=True)
