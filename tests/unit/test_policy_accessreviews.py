"""Access reviews: what of a question is refused, and what of it is not looked at."""

import pytest

from trainshed.kube.policy.accessreviews import evaluation_error, review_causes


def about(**resource):
    return {"user": "u", "resourceAttributes": {"verb": "list", **resource}}


def fields(spec, *, about="others", namespace=None, **metadata):
    review = {"metadata": metadata, "spec": spec}
    return [cause.field for cause in review_causes(review, about=about, namespace=namespace)]


def required(operator, *values, key="a"):
    return {"requirements": [{"key": key, "operator": operator, "values": list(values)}]}


def test_one_question_about_somebody():
    assert fields(about()) == []
    assert fields({}) == ["spec.resourceAttributes", "spec.user"]
    assert fields({}, about="self") == ["spec.resourceAttributes"]
    both = {**about(), "nonResourceAttributes": {}}
    assert fields(both) == ["spec.nonResourceAttributes"]
    assert fields(both, namespace="") == ["spec.nonResourceAttributes"] * 2
    assert fields(about(namespace="a"), namespace="b") == ["spec.resourceAttributes.namespace"]


def test_no_metadata():
    assert fields(about(), name="x") == ["metadata"]
    assert fields(about(namespace="b"), namespace="b", name="x") == ["metadata"]
    assert fields(about(), labels={}, creationTimestamp=None) == []
    assert fields(about(namespace="b"), namespace="b") == []


@pytest.mark.parametrize("name", ["fieldSelector", "labelSelector"])
@pytest.mark.parametrize(
    ("selector", "wrong"),
    [
        ({}, ["requirements"]),
        ({"rawSelector": "a=b", **required("Exists")}, ["rawSelector"]),
        (required("In"), ["requirements[0].values"]),
        (required("Exists", "x"), ["requirements[0].values"]),
        (required("Later", "x"), []),
    ],
)
def test_selectors(name, selector, wrong):
    found = fields(about(**{name: selector}))
    assert found == [f"spec.resourceAttributes.{name}.{field}" for field in wrong]


@pytest.mark.parametrize(
    ("selector", "of_fields", "of_labels"),
    [
        ({"rawSelector": "a=b"}, "", ""),
        ({"rawSelector": "a b c"}, "all", "all"),
        ({"rawSelector": "a"}, "all", ""),
        (required("In", "x"), "", ""),
        (required("In", "x", "y"), "all", ""),
        (required("Exists"), "all", ""),
        (required("Later"), "all", "all"),
        (
            {"requirements": required("In", "x")["requirements"] + required("Later")["requirements"]},
            "partly",
            "partly",
        ),
    ],
)
def test_what_cannot_be_read_is_said(selector, of_fields, of_labels):
    words = {"all": "ignored", "partly": "partially ignored"}
    for name, which in (("fieldSelector", of_fields), ("labelSelector", of_labels)):
        told = f"spec.resourceAttributes.{name} {words[which]} due to parse error" if which else ""
        assert evaluation_error(about(**{name: selector})) == told
    twice = {name: {"rawSelector": "a b c"} for name in ("fieldSelector", "labelSelector")}
    assert "; " in evaluation_error(about(**twice))
