"""Metadata: names per kind, labels, annotations, owners, finalizers, what may not change."""

import pytest

from trainshed.api.v1.pytorch import PYTORCHJOB
from trainshed.kube.builtin.registry import find
from trainshed.kube.meta import names
from trainshed.kube.meta.resources import CONFIGMAPS, LEASES, NAMESPACES, NODES, ROLES, SERVICES
from trainshed.kube.schema.metadata import ANNOTATIONS_MAX, selector_causes, validate_metadata


def causes(resource=CONFIGMAPS, old=None, **meta):
    meta = {"name": "a", **({"namespace": "ns"} if resource.namespaced else {}), **meta}
    before = None if old is None else {"metadata": {**meta, **old}}
    kind = find(resource)
    rule = names.dns_subdomain if kind is None else kind.name_rule
    return [f"{c.field}: {c.message}" for c in validate_metadata(resource, {"metadata": meta}, before, rule)]


@pytest.mark.parametrize(
    ("resource", "name", "valid"),
    [
        (CONFIGMAPS, "a.b-1", True),
        (CONFIGMAPS, "A", False),
        (CONFIGMAPS, "a_b", False),
        (CONFIGMAPS, "-a", False),
        (CONFIGMAPS, "a\n", False),
        (CONFIGMAPS, "x" * 253, True),
        (CONFIGMAPS, "x" * 254, False),
        (NAMESPACES, "a.b", False),
        (NAMESPACES, "x" * 64, False),
        (SERVICES, "1a", False),
        (SERVICES, "a1", True),
        (ROLES, "system:node Reader", True),
        (ROLES, "a/b", False),
        (NODES, "node.example.com", True),
    ],
)
def test_names(resource, name, valid):
    assert (causes(resource, name=name) == []) == valid


def test_name_or_generate_name():
    assert causes(name="") == ["metadata.name: Required value: name or generateName is required"]
    assert causes(name="", generateName="job-") == []
    assert causes(name="", generateName="Job-")[0].startswith('metadata.generateName: Invalid value: "Job-"')


def test_namespace():
    assert causes(namespace="") == ["metadata.namespace: Required value"]
    assert causes(NODES, namespace="ns") == ["metadata.namespace: Forbidden: not allowed on this type"]


def test_labels():
    assert causes(labels={"example.com/App_1": "v.1", "x": ""}) == []
    for key, value in (
        ("a b", "x"),
        ("/x", "y"),
        ("A/b/c", "x"),
        ("x", "a b"),
        ("x", "v" * 64),
        ("EX.com/a", "x"),
    ):
        assert len(causes(labels={key: value})) >= 1
    (text,) = causes(labels={"x": "a b"})
    assert text.startswith('metadata.labels: Invalid value: "a b": a valid label must be an empty string')


def test_annotations():
    assert causes(annotations={"Example.com/x": "anything at all\n"}) == []
    assert causes(annotations={"a": "x" * (ANNOTATIONS_MAX - 1)}) == []
    too_long = "metadata.annotations: Too long: may not be more than 262144 bytes"
    assert causes(annotations={"a": "x" * ANNOTATIONS_MAX}) == [too_long]
    assert causes(annotations={"a": "é" * (ANNOTATIONS_MAX // 2)}) == [too_long]
    assert len(causes(annotations={"a b": ""})) == 1


def test_owner_references():
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    assert causes(ownerReferences=[owner, {**owner, "controller": True}]) == []
    assert [text.partition(":")[0] for text in causes(ownerReferences=[{}])] == [
        f"metadata.ownerReferences.{key}" for key in ("apiVersion", "kind", "name", "uid")
    ]
    two = causes(ownerReferences=[{**owner, "controller": True}, {**owner, "name": "q", "controller": True}])
    assert (
        'Only one reference can have Controller set to true. Found "true" in references for p and q' in two[0]
    )


def test_finalizers():
    assert causes(finalizers=["example.com/x", "kubernetes", "foregroundDeletion"]) == []
    assert causes(finalizers=["mine"]) == [
        'metadata.finalizers[0]: Invalid value: "mine": '
        "name is neither a standard finalizer name nor is it fully qualified"
    ]
    assert causes(finalizers=["a b"]) == [
        f'metadata.finalizers: Invalid value: "a b": {names.qualified_name("a b")[0]}',
        'metadata.finalizers[0]: Invalid value: "a b": '
        "name is neither a standard finalizer name nor is it fully qualified",
    ]
    assert causes(PYTORCHJOB.resource, finalizers=["mine"]) == []
    assert causes(LEASES, finalizers=["mine"]) == []  # whose validation upstream looks at no more
    assert len(causes(finalizers=["orphan", "foregroundDeletion"])) == 1


def test_immutable_fields():
    assert causes(old={}) == []
    assert causes(uid="a", old={"uid": "b"}) == ['metadata.uid: Invalid value: "a": field is immutable']
    assert causes(name="a", old={"name": "b"}) == ['metadata.name: Invalid value: "a": field is immutable']
    assert causes(generation=1, old={"generation": 2}) == [
        "metadata.generation: Invalid value: 1: must not be decremented"
    ]


def test_no_finalizer_is_added_to_an_object_on_its_way_out():
    gone = {"deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["example.com/a"]}
    kept = {**gone, "finalizers": ["example.com/a", "example.com/b"]}
    assert causes(**gone, old={"finalizers": ["example.com/a", "example.com/b"]}) == []
    assert causes(**kept, old=gone) == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"example.com/b"}'
    ]


def test_small_names():
    assert (
        names.env_name("MY.VAR-1 x") == []
        and names.env_name("A=B")
        and names.env_name("")
        and names.env_name("é")
    )
    assert names.config_key("a.b_C-1") == [] and names.config_key("..") and names.config_key("..x")
    assert names.config_key("a/b") and names.config_key("x" * 254)
    assert names.port_name("http-1") == []
    for bad in ("a" * 16, "1", "a--b", "-a", "A", ""):
        assert names.port_name(bad)


def test_selectors():
    good = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["x"]}]}
    assert list(selector_causes(good, "s")) == [] and list(selector_causes(None, "s")) == []
    bad = {"matchExpressions": [{"key": "k", "operator": "In"}, {"key": "", "operator": "Like"}]}
    assert [c.field for c in selector_causes(bad, "s")][:2] == [
        "s.matchExpressions[0].values",
        "s.matchExpressions[1].operator",
    ]
    exists = {"matchExpressions": [{"key": "k", "operator": "Exists", "values": ["x"]}]}
    assert [c.reason for c in selector_causes(exists, "s")] == ["FieldValueForbidden"]
