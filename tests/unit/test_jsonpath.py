"""JSONPath of printer columns: the two expressions of real CRDs verbatim, and every supported step."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.meta import jsonpath

JOB: dict[str, Any] = {
    "metadata": {"labels": {"app": "x", "example.com/name": "y"}},
    "spec": {"replicas": 0, "items": [{"n": 1}, {"n": 2}, {"n": 3}], "nested": [[1, 2], [3]]},
    "status": {
        "conditions": [
            {"type": "Created", "status": "True", "weight": 1},
            {"type": "Completed", "status": "False", "weight": 2.0},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".status.conditions[-1:].type", "Completed"),
        ('.status.conditions[?(@.type=="Completed")].status', "False"),
        (".status.conditions[?(@.type=='Created')].status", "True"),
        (".status.conditions[?(@.weight>1)].type", "Completed"),
        (".status.conditions[?(@.weight >= 1)].type", "Created"),
        ('.status.conditions[?(@.type!="Created")].type', "Completed"),
        (".status.conditions[?(@.reason)].type", None),
        (".status.conditions[?(@.status)].type", "Created"),
        (".status.conditions[?(@.type=='No')].status", None),
        (".spec.replicas", 0),
        ("{.spec.replicas}", 0),
        ("$.spec.replicas", 0),
        ("spec.replicas", 0),
        (".metadata.labels['example.com/name']", "y"),
        (".metadata.labels.example\\.com/name", "y"),
        (".spec.items[0].n", 1),
        (".spec.items[-1].n", 3),
        (".spec.items[5].n", None),
        (".spec.items[1:3].n", 2),
        (".spec.items[*].n", 1),
        (".spec.nested[1][0]", 3),
        (".metadata.labels.*", "x"),
        ("..weight", 1),
        (".spec.replicas.deeper", None),
        (".nothing[0].at['all']", None),
    ],
)
def test_first(path: str, value: Any) -> None:
    assert jsonpath.first(JOB, path) == value


def test_find_returns_all_matches_in_order() -> None:
    assert jsonpath.find({"a": 1}, ".") == [{"a": 1}]
    assert jsonpath.find(JOB, ".spec.items[*].n") == [1, 2, 3]
    assert jsonpath.find(JOB, ".spec.items[::2].n") == [1, 3]


@pytest.mark.parametrize("path", [".a[", ".a[?(@.b==)]", ".a[?(@.b==c)]", ".a[::0]", ".a[?(b)]", ".a]"])
def test_paths_that_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="a"):
        jsonpath.compile(path)


def test_field_names_are_plain_paths_only() -> None:
    assert jsonpath.field_names(".spec.replicas") == ("spec", "replicas")
    for path in ("", ".spec.items[0]", ".spec.*", "..a"):
        with pytest.raises(ValueError, match=r"path|field"):
            jsonpath.field_names(path)
