"""CustomResourceDefinitions: structural rules, names, status, served resources."""

import copy

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.api.crd import crd as own_crd
from trainshed.api.v1.pytorch import PYTORCHJOB
from trainshed.kube.meta.resources import CRDS, Resource
from trainshed.kube.schema import soundness
from trainshed.kube.schema.crd import crd_defaults, validate_crd
from trainshed.kube.schema.crd_schema import schema_causes
from trainshed.kube.schema.crd_serving import established, infos, is_established
from trainshed.kube.schema.crdconversion import review
from trainshed.kube.schema.keywords import Misfit, read_schema
from trainshed.kube.schema.metadata import validate_metadata
from trainshed.kube.schema.nodes import from_crd
from trainshed.kube.schema.soundness import unsound
from trainshed.kube.schema.structural import apply_defaults, validate

NOW = "2024-01-01T00:00:00Z"
LATER = "2024-01-02T00:00:00Z"
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1, "default": 5}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
COLUMN = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}


def build(schema=SCHEMA, *, version=None, **spec):
    row = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        **(version or {}),
    }
    obj = {
        "metadata": {"name": "widgets.kapi.test"},
        "spec": {
            "group": "kapi.test",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [row],
            **spec,
        },
    }
    crd_defaults(obj)
    return copy.deepcopy(obj)


def texts(obj, old=None):
    return [f"{c.field}: {c.message}" for c in validate_crd(obj, old)]


def test_valid():
    crd = build()
    assert texts(crd) == [] and texts(crd, crd) == [] and validate_metadata(CRDS, crd, None) == []
    assert crd["spec"]["names"]["singular"] == "widget" and crd["spec"]["names"]["listKind"] == "WidgetList"
    assert crd["spec"]["conversion"] == {"strategy": "None"}


def test_our_own_crds_are_valid():
    crd = own_crd(PYTORCHJOB)
    crd_defaults(crd)
    assert texts(crd) == []


ROOT = "spec.validation.openAPIV3Schema"


def inside(**spec):
    return {"type": "object", "properties": {"spec": spec}}


def root(**properties):
    return {"type": "object", "properties": properties}


METADATA_IS_IMPLIED = (
    f"{ROOT}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, "
    "but metadata is implicitly specified"
)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({}, f"{ROOT}.type: Required value: must not be empty at the root"),
        (
            {"type": "array", "items": {"type": "string"}},
            f'{ROOT}.type: Invalid value: "array": must be object',
        ),
        (
            inside(),
            f"{ROOT}.properties[spec].type: Required value: must not be empty for specified object fields",
        ),
        (
            inside(type="text"),
            f'{ROOT}.properties[spec].type: Unsupported value: "text": supported values: "array"',
        ),
        (inside(type="array"), f"{ROOT}.properties[spec].items: Required value: must be specified"),
        (
            inside(type="array", items={}),
            f"{ROOT}.properties[spec].items.type: Required value: must not be empty for specified array items",
        ),
        (
            inside(type="object", additionalProperties={}),
            f"{ROOT}.properties[spec].additionalProperties.type: Required value: must not be empty for",
        ),
        (
            inside(type="object", additionalProperties=False, properties={"a": {"type": "string"}}),
            f"{ROOT}.properties[spec].additionalProperties: Forbidden: additionalProperties and properties are mutual",
        ),
        ({"type": "object", "$ref": "#/x"}, f"{ROOT}.$ref: Forbidden: $ref is not supported"),
        (
            inside(type="string", pattern="("),
            f'{ROOT}.properties[spec].pattern: Invalid value: "(": must be a valid',
        ),
        (
            inside(type="integer", default="x"),
            f'{ROOT}.properties[spec].default: Invalid value: "string":  in body must be of type integer: "string"',
        ),
        (
            {**inside(type="string"), "anyOf": [{"type": "object"}]},
            f"{ROOT}.anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            inside(type="array", items={"type": "object"}, **{"x-kubernetes-list-type": "map"}),
            f"{ROOT}.properties[spec].x-kubernetes-list-map-keys: Required value: must not be empty if",
        ),
        (
            inside(type="object", **{"x-kubernetes-validations": [{"rule": "self.a +"}]}),
            f"{ROOT}.properties[spec].x-kubernetes-validations[0].rule: Invalid value: apiextensions.ValidationRule{{",
        ),
        (
            inside(type="object", **{"x-kubernetes-preserve-unknown-fields": False}),
            f"{ROOT}.properties[spec].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true",
        ),
        (root(metadata={"type": "object", "description": "standard"}), METADATA_IS_IMPLIED),
        (
            root(metadata={"type": "object", "properties": {"labels": {"type": "object"}}}),
            METADATA_IS_IMPLIED,
        ),
        (root(metadata={"type": "object", "required": ["name"]}), METADATA_IS_IMPLIED),
        (root(metadata={"type": "object", "minProperties": 0}), METADATA_IS_IMPLIED),
        (
            root(metadata={"type": "string"}),
            f'{ROOT}.properties[metadata].type: Invalid value: "string": must be object',
        ),
        (
            root(kind={"type": "object"}),
            f'{ROOT}.properties[kind].type: Invalid value: "object": must be string',
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            f"{ROOT}.additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            inside(type="array", items={"type": "object"}, **{"x-kubernetes-list-type": "set"}),
            f'{ROOT}.properties[spec].items.x-kubernetes-map-type: Invalid value: "null": must be atomic as item of',
        ),
        (
            inside(
                type="array",
                items={"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                **{"x-kubernetes-list-type": "set"},
            ),
            f'{ROOT}.properties[spec].items.x-kubernetes-list-type: Invalid value: "set": must be atomic as item',
        ),
    ],
)
def test_schemas_that_are_not_structural(schema, text):
    found = texts(build(schema))
    assert len(found) == 1 and found[0].startswith(text)


def test_schemas_that_are():
    int_or_string = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": "^[0-9]+$",
        "x-kubernetes-int-or-string": True,
    }
    assert texts(build(inside(**int_or_string))) == []
    assert texts(build(inside(**{"x-kubernetes-preserve-unknown-fields": True}))) == []
    assert texts(build({**SCHEMA, "oneOf": [{"required": ["spec"]}, {"required": ["status"]}]})) == []
    restricted = {"name": {"type": "string", "maxLength": 9}, "generateName": {"type": "string"}}
    assert texts(build(root(metadata={"type": "object", "properties": restricted}))) == []
    assert texts(build(root(metadata={"type": "object"}, kind={"type": "string"}))) == []
    atomic = {"type": "object", "x-kubernetes-map-type": "atomic"}
    assert texts(build(inside(type="array", items=atomic, **{"x-kubernetes-list-type": "set"}))) == []


def test_a_null_default_is_none():
    crd = build(inside(type="object", properties={"a": {"type": "string", "default": None}}))
    assert texts(crd) == []
    (version,) = crd["spec"]["versions"]
    assert apply_defaults({"spec": {}}, from_crd(version["schema"]["openAPIV3Schema"])) == {"spec": {}}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("", "jsonPath: Required value"),
        ("spec.size", 'jsonPath: Invalid value: "spec.size": is an invalid path'),
        (".spec.shape", 'jsonPath: Invalid value: ".spec.shape": is an invalid path'),
        (".metadata.name", 'jsonPath: Invalid value: ".metadata.name": must not point to fields in metadata'),
        (
            ".spec",
            'jsonPath: Invalid value: ".spec": must point to a field of type string, boolean or integer',
        ),
    ],
)
def test_selectable_fields_are_simple_fields_of_the_schema(path, text):
    size, wrong = {"jsonPath": ".spec.size"}, {"jsonPath": path}
    named = {"type": "object", "properties": {"name": {"type": "string"}}}
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "metadata": named}}
    (found,) = texts(build(schema, version={"selectableFields": [size, wrong]}))
    assert found.startswith(f"spec.selectableFields[1].{text}")
    assert texts(build(schema, version={"selectableFields": [size]})) == []
    (twice,) = texts(build(schema, version={"selectableFields": [size, size]}))
    assert twice == 'spec.selectableFields[1].jsonPath: Duplicate value: ".spec.size"'


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"group": "other.test"},
            'metadata.name: Invalid value: "widgets.kapi.test": must be spec.names.plural+"."',
        ),
        (
            {"scope": "Galaxy"},
            'spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"',
        ),
        ({"scope": ""}, "spec.scope: Required value"),
        ({"names": {"plural": "widgets"}}, "spec.names.singular: Required value"),
        (
            {"versions": []},
            "spec.versions: Invalid value: []apiextensions.CustomResourceDefinitionVersion{}: "
            "must have exactly one version marked as storage version",
        ),
        (
            {"preserveUnknownFields": True},
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true",
        ),
        ({"conversion": {"strategy": "Magic"}}, 'spec.conversion.strategy: Unsupported value: "Magic"'),
        ({"version": {"schema": None}}, "spec.versions[0].schema.openAPIV3Schema: Required value"),
        ({"version": {"name": "V1"}}, 'spec.version: Invalid value: "V1"'),
        (
            {
                "version": {
                    "subresources": {"scale": {"specReplicasPath": ".x", "statusReplicasPath": ".status.r"}}
                }
            },
            'spec.subresources.scale.specReplicasPath: Invalid value: ".x": should be a json path',
        ),
        (
            {"version": {"additionalPrinterColumns": [{**COLUMN, "type": "text"}]}},
            'spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean',
        ),
        (
            {"version": {"additionalPrinterColumns": [{**COLUMN, "jsonPath": "spec.size"}]}},
            'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec.size": must be a simple',
        ),
    ],
)
def test_rules_outside_of_the_schema(change, text):
    found = texts(build(**change))
    assert len(found) >= 1 and found[0].startswith(text)


def test_protected_groups_need_an_approval():
    crd = build(group="x.k8s.io")
    crd["metadata"]["name"] = "widgets.x.k8s.io"
    (text,) = texts(crd)
    assert text.startswith(
        "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups"
    )
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://example.com"}
    assert texts(crd) == []


def test_schemas_of_several_versions_are_named_by_version():
    crd = build()
    crd["spec"]["versions"].append(
        {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": {}}}
    )
    assert texts(crd) == [
        "spec.versions[1].schema.openAPIV3Schema.type: Required value: must not be empty at the root"
    ]


def test_immutable_fields():
    old = established(build(), NOW)
    new = copy.deepcopy(old)
    new["spec"]["scope"] = "Cluster"
    assert texts(new, old) == ['spec.scope: Invalid value: "Cluster": field is immutable']
    new = copy.deepcopy(old)
    new["spec"]["versions"][0]["name"] = "v2"
    assert texts(new, old) == ['status.storedVersions[0]: Invalid value: "v1": must appear in spec.versions']


def test_status():
    crd = established(build(), NOW)
    assert crd["status"] == {
        "conditions": [
            {
                "type": "NamesAccepted",
                "status": "True",
                "reason": "NoConflicts",
                "message": "no conflicts found",
                "lastTransitionTime": NOW,
            },
            {
                "type": "Established",
                "status": "True",
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
                "lastTransitionTime": NOW,
            },
        ],
        "acceptedNames": {
            "plural": "widgets",
            "singular": "widget",
            "kind": "Widget",
            "listKind": "WidgetList",
        },
        "storedVersions": ["v1"],
    }
    assert is_established(crd)
    assert established(crd, LATER) == crd
    two = copy.deepcopy(crd)
    two["spec"]["versions"] = [
        {**two["spec"]["versions"][0], "storage": False},
        {**two["spec"]["versions"][0], "name": "v2"},
    ]
    assert established(two, LATER)["status"]["storedVersions"] == ["v1", "v2"]


def test_what_is_established_shares_nothing_that_is_written_to_with_what_it_was_made_of():
    crd = build()
    crd["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"service": {"name": "s"}}},
    }
    crd["spec"]["versions"].append({"name": "v2"})
    before = copy.deepcopy(crd)
    made = established(crd, NOW)
    assert crd == before
    assert made["spec"]["versions"][1] == {"name": "v2", "served": False, "storage": False}
    assert made["spec"]["conversion"]["webhook"]["clientConfig"]["service"] == {"name": "s", "port": 443}
    made["metadata"]["managedFields"] = []
    made["status"]["conditions"].clear()
    assert crd == before


def test_a_schema_is_looked_at_until_it_is_known_to_be_sound(monkeypatch):
    looked_at = []
    causes = soundness.schema_causes
    monkeypatch.setattr(soundness, "_known", {})
    monkeypatch.setattr(
        soundness, "schema_causes", lambda schema, path: looked_at.append(schema) or causes(schema, path)
    )
    sound = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    turned = {**sound, "properties": dict(reversed(sound["properties"].items()))}
    assert unsound(sound, "x") == unsound(turned, "y") == []
    assert looked_at == [sound]
    wrong = {"type": "object", "properties": {"a": {"type": "text"}}}
    assert unsound(wrong, "x") == unsound(wrong, "x") != []
    assert looked_at == [sound, wrong, wrong]
    shipped = {"type": "object"}
    soundness.vouch(shipped)
    assert unsound(shipped, "x") == [] and shipped not in looked_at
    monkeypatch.setattr(soundness, "MOST_KNOWN", 3)
    for name in "abcd":
        unsound({"type": "object", "properties": {name: {"type": "string"}}}, "x")
    assert len(soundness._known) <= 3


def test_names_in_use():
    crd = established(build(), NOW, names_conflict='"wd" is already in use')
    assert not is_established(crd)
    first = crd["status"]["conditions"][0]
    assert (first["status"], first["message"]) == ("False", '"wd" is already in use')
    assert is_established(established(crd, LATER))
    still = established(established(build(), NOW), LATER, names_conflict="x")
    assert is_established(still)


def test_served_resources():
    version = {
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
        },
        "additionalPrinterColumns": [COLUMN],
        "deprecated": True,
    }
    crd = build(version=version)
    crd["spec"]["names"].update(shortNames=["wd"], categories=["all"])
    crd["spec"]["versions"].append(
        {**crd["spec"]["versions"][0], "name": "v2", "served": False, "storage": False}
    )
    (info,) = infos(crd)
    assert info.resource == Resource("kapi.test", "v1", "widgets", "Widget", True)
    assert (info.singular, info.list_kind, info.crd_name) == ("widget", "WidgetList", "widgets.kapi.test")
    assert (info.short_names, info.categories) == (("wd",), ("all",))
    assert set(info.subresources) == {"status", "scale"} and info.subresources["scale"].group == "autoscaling"
    assert info.scale is not None and info.scale.spec_replicas == ".spec.size"
    assert info.printer_columns == (COLUMN,) and msgspec.json.decode(info.schema) == SCHEMA
    assert info.deprecation_warning == "kapi.test/v1 Widget is deprecated"
    assert info.storage_version == "v1" and not info.unconditional_update and info.crd


KEYWORDS = (
    "type",
    "properties",
    "items",
    "additionalProperties",
    "allOf",
    "anyOf",
    "not",
    "default",
    "required",
)
KEYWORDS += (
    "enum",
    "pattern",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
)
KEYWORDS += ("minimum", "maxLength", "multipleOf", "nullable", "x-kubernetes-int-or-string", "$ref", "format")
NONSENSE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["object", "array", "string", "integer", "map", "("]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=5),
    max_leaves=20,
)


@given(NONSENSE)
def test_any_json_is_a_schema_or_refused(schema):
    """Never a crash: what is accepted can also be compiled, defaulted and validated against."""
    try:
        read = read_schema(schema, "x", [], "x")
    except Misfit:
        return
    if not list(schema_causes(read, "x")):
        node = from_crd(read)
        obj = apply_defaults({"spec": {"a": [1]}, "type": None}, node)
        validate(obj, node)


@pytest.mark.parametrize("listed", [{"minLength": 1}, None])
def test_a_schema_that_cannot_be_structural_is_told_once(listed):
    schema = inside(type="array", items=[{"type": "string", **(listed or {})}])
    assert texts(build(schema)) == [
        f"{ROOT}.properties[spec].items: Forbidden: items must be a schema object and not an array"
    ]
    schema = inside(type="object", **{"$schema": "x"})
    assert texts(build(schema)) == [f"{ROOT}: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"]


def test_only_some_fields_stand_at_the_root_where_there_is_a_status():
    version = {"subresources": {"status": {}}}
    (told,) = texts(build({"type": "object", "maxProperties": 0}, version=version))
    assert told.startswith(
        f"{ROOT}: Invalid value: apiextensions.JSONSchemaProps{{}}: only [Description Type Format"
    )
    assert texts(build({"type": "object", "maxProperties": 0})) == []
    assert texts(build({"type": "object", "title": "t"}, version=version)) == []
    (told, *_) = texts(build({"type": "array", "items": {"type": "string"}}, version=version))
    assert told.startswith(
        f'{ROOT}.type: Invalid value: "array": only "object" is allowed as the type at the root'
    )


@pytest.mark.parametrize(
    ("accepted", "spoken"), [(["v9", "v1beta1", "v1"], "v1beta1"), (["v9"], "v1"), (None, "v1")]
)
def test_a_conversion_is_asked_for_in_the_first_version_that_the_webhook_takes(accepted, spoken):
    asked = review({"conversionReviewVersions": accepted}, [{"kind": "Widget"}], "example.com/v2", "u")
    assert asked["apiVersion"] == f"apiextensions.k8s.io/{spoken}"
    assert asked["request"] == {
        "uid": "u",
        "desiredAPIVersion": "example.com/v2",
        "objects": [{"kind": "Widget"}],
    }
