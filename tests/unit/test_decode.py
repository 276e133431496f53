"""Decoding by schema: strict texts, types, canonical values. Custom resources: pruning."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.times import canonical_time
from trainshed.kube.schema.decode import cannot_handle, conform
from trainshed.kube.schema.nodes import builtin, from_crd

POD = builtin(("", "v1", "Pod"))
WHAT = cannot_handle("Pod", "v1")
WIDGET = from_crd(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "cpu": {"x-kubernetes-int-or-string": True},
                    "note": {"type": "string", "nullable": True},
                    "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "map": {
                        "type": "object",
                        "additionalProperties": {"type": "object", "properties": {"a": {}}},
                    },
                    "list": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"k": {"type": "string"}}},
                    },
                },
            }
        },
    }
)


def pod(obj, mode="strict", **more):
    return conform(obj, POD, mode=mode, what=WHAT, builtin=True, **more)


def widget(obj, mode="strict"):
    return conform(obj, WIDGET, mode=mode, what=cannot_handle("Widget", "v1"), builtin=False)


def refusal(obj, **more):
    with pytest.raises(ApiError) as caught:
        pod(obj, **more)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    return caught.value.message


TYPO = {"spec": {"containers": [{"name": "c", "comand": ["x"]}], "foo": 1}}


def test_unknown_fields():
    assert refusal(TYPO) == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        'unknown field "spec.containers[0].comand", unknown field "spec.foo"'
    )
    kept = {"spec": {"containers": [{"name": "c"}]}}
    assert pod(TYPO, "ignore") == (kept, [])
    warnings = ['unknown field "spec.containers[0].comand"', 'unknown field "spec.foo"']
    assert pod(TYPO, "warn") == (kept, warnings)


def test_duplicates_are_reported_like_unknown_fields():
    assert refusal({}, duplicates=["data.a"]).endswith('strict decoding error: duplicate field "data.a"')
    assert pod({}, "warn", duplicates=["data.a"])[1] == ['duplicate field "data.a"']


def test_field_names_are_case_sensitive():
    assert 'unknown field "Spec"' in refusal({"Spec": {}})


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        ({"spec": []}, "cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
        (
            {"spec": {"containers": "x"}},
            "cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            {"metadata": {"labels": {"a": 1}}},
            "cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            {"metadata": {"labels": "x"}},
            "cannot unmarshal string into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
        (
            {"spec": {"priority": 1 << 40}},
            "cannot unmarshal number 1099511627776 into Go struct field PodSpec.spec.priority of type int32",
        ),
        ({"spec": {"priority": 1.5}}, "of type int32"),
        ({"spec": {"priority": True}}, "cannot unmarshal bool"),
        ({"spec": {"hostNetwork": "true"}}, "of type bool"),
        ({"metadata": {"creationTimestamp": "yesterday"}}, 'parsing time "yesterday"'),
        ({"metadata": {"creationTimestamp": "2024-01-01"}}, "parsing time"),
        (
            {"spec": {"containers": [{"resources": {"limits": {"cpu": "two"}}}]}},
            "quantities must match the regular",
        ),
        ({"spec": {"containers": [{"resources": {"limits": {"cpu": True}}}]}}, "quantities must match"),
        (
            {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": 1.5}}}]}},
            "number 1.5 into Go struct field HTTPGetAction.spec.containers.livenessProbe.httpGet.port of type int32",
        ),
    ],
)
def test_wrong_json_types(obj, text):
    message = refusal(obj)
    assert message.startswith(WHAT) and text in message


def test_secrets_hold_base64():
    secret = builtin(("", "v1", "Secret"))
    for value in ("not base64!", "abc"):
        with pytest.raises(ApiError, match="illegal base64 data"):
            conform({"data": {"a": value}}, secret, mode="ignore", what="Secret", builtin=True)
    assert conform({"data": {"a": "YWJj"}}, secret, mode="ignore", what="Secret", builtin=True)[0] == {
        "data": {"a": "YWJj"}
    }


def test_values_become_canonical():
    out, _ = pod(
        {
            "metadata": {"creationTimestamp": "2024-01-01T02:00:00+02:00", "annotations": {"a": None}},
            "spec": {
                "priority": 3.0,
                "nodeName": None,
                "containers": [{"resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}}}, None],
            },
        }
    )
    assert out == {
        "metadata": {"creationTimestamp": "2024-01-01T00:00:00Z", "annotations": {"a": ""}},
        "spec": {
            "priority": 3,
            "containers": [{"resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}}, {}],
        },
    }
    assert type(out["spec"]["priority"]) is int


def test_times():
    assert canonical_time("2024-01-01T00:00:00Z") == "2024-01-01T00:00:00Z"
    assert canonical_time("2024-01-01T00:00:00.987654321Z") == "2024-01-01T00:00:00Z"
    assert canonical_time("2024-01-01T00:00:00.500000Z", micro=True) == "2024-01-01T00:00:00.500000Z"
    for text in ("20240101T000000Z", "2024-01-01 00:00:00Z", "2024-01-01T00:00:00", "2024-W01-1T00:00:00Z"):
        with pytest.raises(ValueError):
            canonical_time(text)


def test_custom_resources_are_pruned():
    obj = {
        "metadata": {"name": "w", "labels": {"a": "b"}, "bogus": 1},
        "spec": {
            "size": 5.0,
            "cpu": 1.0,
            "note": None,
            "raw": {"any": {"thing": None}},
            "map": {"x": {"a": {"free": 1}, "b": 1}},
            "list": [{"k": "v", "z": 1}],
            "foo": 1,
        },
        "extra": 1,
    }
    with pytest.raises(ApiError) as caught:
        widget(obj)
    unknown = ["metadata.bogus", "spec.map.x.b", "spec.list[0].z", "spec.foo", "extra"]
    assert caught.value.message.startswith(
        'Widget in version "v1" cannot be handled as a Widget: strict decoding'
    )
    for path in unknown:
        assert f'unknown field "{path}"' in caught.value.message
    out, warnings = widget(obj, "warn")
    assert warnings == [f'unknown field "{path}"' for path in unknown]
    assert out == {
        "metadata": {"name": "w", "labels": {"a": "b"}},
        "spec": {
            "size": 5,
            "cpu": 1,
            "note": None,
            "raw": {"any": {"thing": None}},
            "map": {"x": {"a": {"free": 1}}},
            "list": [{"k": "v"}],
        },
    }


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("5.0", "5"), ("1e3", "1000"), ("-0.0", "0"), ("1.5", "1.5"), ("1e22", "1e+22"), ("1e-7", "1e-07")],
)
def test_numbers_without_a_fraction_are_kept_without_one(sent, kept):
    schema = {"type": "object", "properties": {"spec": {"type": "number"}}}
    out, _ = conform({"spec": float(sent)}, from_crd(schema), mode="strict", what="W", builtin=False)
    assert str(out["spec"]) == kept


def test_types_of_custom_resources_are_left_to_validation():
    assert widget({"spec": {"size": "big", "list": "x", "map": 3}})[0] == {
        "spec": {"size": "big", "list": "x", "map": 3}
    }
    with pytest.raises(ApiError, match=r"metadata\.labels"):
        widget({"metadata": {"labels": {"a": 1}}})


# ------------------------------------------------------------------------------------------- properties

QUANTITIES = st.sampled_from(["1", "500m", "0.5Gi", "1024Mi", 2, 0.25, "1e3", "1500"])
CONTAINERS = st.fixed_dictionaries(
    {"name": st.text("ab", min_size=1)},
    optional={
        "image": st.text("xyz"),
        "args": st.lists(st.text(), max_size=2),
        "bogus": st.integers(),
        "resources": st.fixed_dictionaries(
            {}, optional={"limits": st.dictionaries(st.sampled_from(["cpu", "memory"]), QUANTITIES)}
        ),
    },
)
PODS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {}, optional={"labels": st.dictionaries(st.text(), st.none() | st.text()), "uid": st.none()}
        ),
        "spec": st.fixed_dictionaries(
            {}, optional={"containers": st.lists(CONTAINERS, max_size=3), "nodeName": st.none() | st.text()}
        ),
    },
)


@given(PODS)
def test_conform_is_idempotent_and_leaves_its_input_alone(obj):
    before = copy.deepcopy(obj)
    once, _ = pod(obj, "ignore")
    assert obj == before
    assert pod(once) == (once, [])


WIDGET_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers() | st.text(),
        "note": st.none() | st.text(),
        "raw": st.dictionaries(st.text(), st.integers() | st.none()),
        "list": st.lists(st.fixed_dictionaries({"k": st.text()})),
    },
)


@given(WIDGET_SPECS, st.dictionaries(st.text(min_size=1).map(lambda key: "x" + key), st.integers()))
def test_pruning_keeps_exactly_the_known_fields(spec, unknown):
    out, warnings = widget({"spec": {**unknown, **spec}}, "warn")
    assert out == {"spec": spec}
    assert len(warnings) == len(unknown)
    assert widget(out) == (out, [])


CRD = builtin(("apiextensions.k8s.io", "v1", "CustomResourceDefinition"))


def definition(schema):
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    return {"metadata": {"name": "x"}, "spec": {"versions": [version]}}


@pytest.mark.parametrize(
    "schema, unknown, kept",
    [
        ({"type": "object", "propertis": {}}, "propertis", {"type": "object"}),
        (
            {"properties": {"a": {"typ": "x", "type": "string"}}},
            "properties.a.typ",
            {"properties": {"a": {"type": "string"}}},
        ),
        ({"allOf": [{}, {"min": 1, "not": {}}]}, "allOf[1].min", {"allOf": [{}, {"not": {}}]}),
        (
            {"x-kubernetes-validations": [{"rule": "true", "x": 1}]},
            "x-kubernetes-validations[0].x",
            {"x-kubernetes-validations": [{"rule": "true"}]},
        ),
        ({"deprecated": True, "title": "t"}, "deprecated", {"title": "t"}),
    ],
)
def test_unknown_keywords_of_schemas(schema, unknown, kept):
    given = definition(schema)
    before = repr(given)
    out, warnings = conform(given, CRD, mode="warn", what="", builtin=True)
    assert warnings == [f'unknown field "spec.versions[0].schema.openAPIV3Schema.{unknown}"']
    assert out["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == kept
    assert repr(given) == before, "the input is not changed"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"propertis": {"type": "string"}}, "default": {"typ": 1}, "example": {"x": 1}},
        {"additionalProperties": True, "enum": [{"typ": 1}], "x-kubernetes-validations": [{"rule": "true"}]},
        {"items": {"type": "string"}, "additionalItems": {"type": "string"}},
    ],
)
def test_what_is_no_keyword_but_a_name_or_a_value(schema):
    out, warnings = conform(definition(schema), CRD, mode="warn", what="", builtin=True)
    assert warnings == []
    assert out["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == schema


@pytest.mark.parametrize("key", ["items", "additionalProperties"])
def test_unknown_keywords_of_what_is_decoded_by_itself_are_nobodys(key):
    out, warnings = conform(definition({key: {"min": 1}}), CRD, mode="warn", what="", builtin=True)
    assert warnings == []
    assert out["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == {key: {}}


def test_only_what_is_not_shared_with_a_whole_object_is_looked_at() -> None:
    stored, _ = pod({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}})
    spec = stored["spec"]
    spec["containers"][0]["odd"] = 1  # as a later release may have left it
    changed = {**stored, "status": {"phase": "Running", "odd": 1, "startTime": "2026-01-01T01:00:00+01:00"}}
    out, warnings = pod(changed, mode="warn", whole=stored)
    assert warnings == ['unknown field "status.odd"']
    assert out["spec"] is spec
    assert out["status"] == {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    assert pod(changed, mode="warn")[1] == [
        'unknown field "spec.containers[0].odd"',
        'unknown field "status.odd"',
    ]
    with pytest.raises(ApiError, match="of type string"):
        pod({**stored, "spec": {**spec, "nodeName": 1}}, whole=stored)
