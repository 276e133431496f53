"""Label and field selectors: grammar, the messages of refusals, and matching."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.kube.builtin.registry import find, selectable_fields
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.fieldselectors import METADATA, Getter, custom
from trainshed.kube.meta.resources import EVENTS, JOBS, NODES, PODS, Resource
from trainshed.kube.meta.selectors import FieldSelector, LabelSelector


def fields_of(resource: Resource) -> Mapping[str, Getter]:
    """Return what a field selector may name of a built-in kind."""
    kind = find(resource)
    assert kind is not None
    return selectable_fields(kind.info)


LABELS = {"app": "web", "tier": "", "n": "5", "example.com/role": "node"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web , n=5", True),
        ("app=db", False),
        ("app!=web", False),
        ("app!=db", True),
        ("missing!=x", True),
        ("app in (db, web)", True),
        ("app in (db)", False),
        ("app notin (db,web)", False),
        ("missing notin (a)", True),
        ("missing in (a,)", False),
        ("tier in (a,)", True),
        ("tier in (,a)", True),
        ("tier=", True),
        ("tier=,app", True),
        ("app", True),
        ("!app", False),
        ("! missing", True),
        ("n>3", True),
        ("n>5", False),
        ("n<6", True),
        ("app>3", False),
        ("example.com/role in (initializer, launcher, node)", True),
        ("in in (a)", False),
        ("app=web,", None),
    ],
)
def test_matching(text: str, matches: bool | None) -> None:
    if matches is None:
        with pytest.raises(ApiError):
            LabelSelector.parse(text)
    else:
        assert LabelSelector.parse(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("x=a=b", "found '=', expected: ',' or 'end of string'"),
        ("x in a", "unable to parse requirement: found 'a' expected: '('"),
        ("x,,y", "found ',', expected: identifier after ','"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("x y", "unable to parse requirement: found 'y', expected: in, notin, =, ==, !=, gt, lt"),
        ("x=(", "unable to parse requirement: found '(', expected: identifier"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("x in ()", "unable to parse requirement: values: Invalid value: []: for 'in', 'notin' operators"),
        ("x>a", "unable to parse requirement: values[0]: Invalid value: \"a\": for 'Gt', 'Lt' operators"),
        ("a/b/c=d", 'unable to parse requirement: key: Invalid value: "a/b/c"'),
        ("x=-a", 'Invalid value: "-a": a valid label must be an empty string'),
        (f"x={'a' * 64}", "must be no more than 63 characters"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        LabelSelector.parse(text)
    assert caught.value.code == 400
    assert message in caught.value.message


def test_selector_objects() -> None:
    selector = LabelSelector.from_object(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "n", "operator": "In", "values": ["5", "6"]},
                {"key": "missing", "operator": "DoesNotExist"},
                {"key": "tier", "operator": "Exists"},
                {"key": "x", "operator": "NotIn", "values": ["y"]},
            ],
        }
    )
    assert selector.matches(LABELS)
    assert not selector.matches({})
    assert str(selector) == "app=web,!missing,n in (5,6),tier,x!=y"
    assert LabelSelector.from_object({}).everything
    assert not LabelSelector.from_object(None).matches(LABELS)
    assert not LabelSelector.from_labels({}).matches(LABELS)
    assert LabelSelector.from_labels({"app": "web"}).matches(LABELS)
    with pytest.raises(ApiError, match="not a valid label selector operator"):
        LabelSelector.from_object({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]})


_KEYS = st.sampled_from(["app", "example.com/x", "in", "notin"])
_VALUES = st.sampled_from(["", "a", "web-1", "notin", "7"])
_TERMS = st.one_of(
    st.builds("{}={}".format, _KEYS, _VALUES),
    st.builds("{} != {}".format, _KEYS, _VALUES),
    st.builds(
        lambda k, o, v: f"{k} {o} ({','.join(v)})",
        _KEYS,
        st.sampled_from(["in", "notin"]),
        st.lists(_VALUES, min_size=1, max_size=3).filter(any),
    ),
    st.builds("!{}".format, _KEYS),
    _KEYS,
    st.builds("{}>{}".format, _KEYS, st.integers(0, 9)),
)


@given(st.lists(_TERMS, max_size=4), st.dictionaries(_KEYS, _VALUES))
def test_printed_form_means_the_same_and_comma_is_and(terms: list[str], labels: dict[str, str]) -> None:
    selector = LabelSelector.parse(",".join(terms))
    assert LabelSelector.parse(str(selector)) == selector
    assert selector.matches(labels) is all(LabelSelector.parse(term).matches(labels) for term in terms)


@given(st.text(alphabet="ab=!(),<> in", max_size=12))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        LabelSelector.parse(text)
    except ApiError as error:
        assert error.code == 400


POD: dict[str, Any] = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"nodeName": "n1", "hostNetwork": True},
    "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]},
}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("metadata.name=web", True),
        ("metadata.name==web,metadata.namespace=default", True),
        ("metadata.name!=web", False),
        ("spec.nodeName=n1,status.phase!=Failed", True),
        ("spec.hostNetwork=true", True),
        ("status.podIPs=10.0.0.1", True),
        ("status.nominatedNodeName=", True),
        ("metadata.name=a\\,b", False),
    ],
)
def test_field_matching(text: str, matches: bool) -> None:
    fields = fields_of(PODS)
    selector = FieldSelector.parse(text)
    selector.check(fields, builtin=True)
    assert selector.matches(POD, fields) is matches


def test_field_values_may_be_escaped() -> None:
    assert FieldSelector.parse(r"a=b\,c\=d\\").requirements == (("a", True, "b,c=d\\"),)
    assert FieldSelector.parse("metadata.name=x,a!=b").exact("metadata.name") == "x"
    assert FieldSelector.parse("metadata.name!=x").exact("metadata.name") is None
    for text in ("foo", "=x", r"a=b\c"):
        with pytest.raises(ApiError) as caught:
            FieldSelector.parse(text)
        assert caught.value.code == 400


@pytest.mark.parametrize(
    ("resource", "field", "message"),
    [
        (PODS, "spec.foo", "field label not supported: spec.foo"),
        (
            Resource("", "v1", "configmaps", "ConfigMap"),
            "data.a",
            '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (
            Resource("events.k8s.io", "v1", "events", "Event"),
            "involvedObject.name",
            "field label not supported: involvedObject.name",
        ),
    ],
)
def test_unknown_fields_are_refused(resource: Resource, field: str, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        FieldSelector.parse(f"{field}=x").check(fields_of(resource), builtin=True)
    assert (caught.value.code, caught.value.message) == (400, message)


def test_a_custom_resource_has_the_fields_that_its_definition_names() -> None:
    fields = {**METADATA, **custom([".spec.colour"])}
    selector = FieldSelector.parse("spec.colour=red")
    selector.check(fields, builtin=False)
    assert selector.matches({"spec": {"colour": "red"}}, fields)
    assert not selector.matches({"spec": {}}, fields)
    for known in (fields, METADATA):
        with pytest.raises(ApiError, match=r"field label not supported: spec\.foo"):
            FieldSelector.parse("spec.foo=x").check(known, builtin=False)


def test_fields_of_other_kinds() -> None:
    job = fields_of(JOBS)
    assert FieldSelector.parse("status.successful=2").matches({"status": {"succeeded": 2}}, job)
    assert FieldSelector.parse("status.successful=0").matches({}, job)
    assert FieldSelector.parse("spec.unschedulable=false").matches({}, fields_of(NODES))
    event = {"involvedObject": {"kind": "Pod"}, "source": {"component": "kubelet"}}
    selector = FieldSelector.parse("involvedObject.kind=Pod,involvedObject.namespace=,source=kubelet")
    assert selector.matches(event, fields_of(EVENTS))
