"""Field sets: what is owned, what differs, and the algebra's laws."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trainshed.kube.patch import fieldset
from trainshed.kube.schema.nodes import UNTYPED, builtin, from_crd

POD = builtin(("", "v1", "Pod"))

MANIFEST: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "d", "labels": {"app": "x"}, "finalizers": ["a/b"]},
    "spec": {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "a"}],
        "containers": [
            {
                "name": "c",
                "args": ["a"],
                "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "1"}},
                "env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}


def test_fields_of_an_applied_pod() -> None:
    assert fieldset.owned_by(MANIFEST, POD) == {
        "f:metadata": {"f:labels": {"f:app": {}}, "f:finalizers": {'v:"a/b"': {}}},
        "f:spec": {
            "f:nodeSelector": {},
            "f:tolerations": {},
            "f:containers": {
                'k:{"name":"c"}': {
                    ".": {},
                    "f:name": {},
                    "f:args": {},
                    "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
                    "f:resources": {"f:limits": {"f:cpu": {}}},
                    "f:env": {
                        'k:{"name":"E"}': {".": {}, "f:name": {}, "f:valueFrom": {"f:fieldRef": {}}},
                    },
                }
            },
            "f:volumes": {'k:{"name":"v"}': {".": {}, "f:name": {}, "f:emptyDir": {}}},
        },
    }


def test_a_created_object_owns_new_maps_themselves() -> None:
    changed, removed = fieldset.compare({}, MANIFEST, POD)
    assert removed == {}
    assert changed["f:metadata"]["f:labels"] == {".": {}, "f:app": {}}
    assert "." not in changed["f:metadata"]
    assert "." not in changed["f:spec"]
    container = changed["f:spec"]["f:containers"]['k:{"name":"c"}']
    assert container["f:ports"]["."] == {}
    assert container["f:ports"]['k:{"containerPort":80,"protocol":"TCP"}'] == {".": {}, "f:containerPort": {}}


def test_differences() -> None:
    old = {"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"tolerations": [{"key": "a"}]}}
    new = {"metadata": {"labels": {"a": "9", "c": "3"}, "resourceVersion": "7"}, "spec": {"tolerations": []}}
    changed, removed = fieldset.compare(old, new, POD)
    assert changed == {"f:metadata": {"f:labels": {"f:a": {}, "f:c": {}}}, "f:spec": {"f:tolerations": {}}}
    assert removed == {"f:metadata": {"f:labels": {"f:b": {}}}}


def test_reordering_a_keyed_list_is_no_difference() -> None:
    one, two = {"name": "a", "image": "x"}, {"name": "b", "image": "y"}
    changed, removed = fieldset.compare(
        {"spec": {"containers": [one, two]}}, {"spec": {"containers": [two, one]}}, POD
    )
    assert (changed, removed) == ({}, {})


def test_a_keyed_list_with_equal_keys_is_owned_whole() -> None:
    pod = {
        "spec": {
            "containers": [{"name": "a", "env": [{"name": "E", "value": "1"}, {"name": "E", "value": "2"}]}]
        }
    }
    container = fieldset.owned_by(pod, POD)["f:spec"]["f:containers"]['k:{"name":"a"}']
    assert container["f:env"] == {}


def test_custom_resources_follow_their_hints() -> None:
    schema = from_crd(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "plain": {"type": "array", "items": {"type": "string"}},
                        "set": {
                            "type": "array",
                            "x-kubernetes-list-type": "set",
                            "items": {"type": "string"},
                        },
                        "atomic": {"type": "object", "x-kubernetes-map-type": "atomic"},
                        "keyed": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["id"],
                            "items": {"type": "object", "properties": {"id": {"type": "integer"}}},
                        },
                    },
                }
            },
        }
    )
    spec = {"plain": ["a"], "set": ["a"], "atomic": {"a": 1}, "keyed": [{"id": 1}], "free": {"x": [1]}}
    assert fieldset.owned_by({"spec": spec}, schema)["f:spec"] == {
        "f:plain": {},
        "f:set": {'v:"a"': {}},
        "f:atomic": {},
        "f:keyed": {'k:{"id":1}': {".": {}, "f:id": {}}},
        "f:free": {".": {}, "f:x": {}},
    }


def test_paths_are_printed_as_in_messages() -> None:
    fields = fieldset.owned_by(MANIFEST, POD)
    printed = list(fieldset.paths(fields))
    assert '.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"].containerPort' in printed
    assert '.metadata.finalizers[="a/b"]' in printed
    assert '.spec.containers[name="c"]' in printed
    assert ".spec" not in printed
    assert list(fieldset.paths({"f:a": {"i:0": {}}})) == [".a[0]"]


_NAMES = st.sampled_from(["f:a", "f:b", 'k:{"name":"c"}', "v:1"])


def _normal(fields: dict[str, Any]) -> dict[str, Any]:
    return {} if set(fields) == {"."} else fields


_TREES: st.SearchStrategy[Any] = st.recursive(
    st.just({}),
    lambda below: st.dictionaries(st.one_of(_NAMES, st.just(".")), below, max_size=3).map(
        lambda t: _normal({k: ({} if k == "." else v) for k, v in t.items()})
    ),
    max_leaves=8,
)
_SETS = st.dictionaries(_NAMES, _TREES, max_size=3)


def members(fields: dict[str, Any]) -> set[str]:
    return set(fieldset.paths(fields))


@given(_SETS, _SETS)
def test_union_holds_the_members_of_both(a: Any, b: Any) -> None:
    assert members(fieldset.union(a, b)) == members(a) | members(b)
    assert fieldset.union(a, a) == a


@given(_SETS, _SETS)
def test_difference_holds_no_member_of_the_other(a: Any, b: Any) -> None:
    left = members(fieldset.subtract(a, b))
    assert left <= members(a)
    assert not left & members(b)
    leaves = {
        path
        for path in members(b)
        if not any(other.startswith(path) and other != path for other in members(b))
    }
    lost = members(a) - members(b) - left
    assert all(any(path.startswith(leaf) for leaf in leaves) for path in lost)
    assert fieldset.subtract(a, a) == {}


_OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "data": st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "2"]), max_size=3),
        "nested": st.dictionaries(
            st.sampled_from("abc"), st.dictionaries(st.sampled_from("xy"), st.integers(0, 1)), max_size=2
        ),
    },
)


@given(_OBJECTS, _OBJECTS)
def test_no_difference_means_equal(old: Any, new: Any) -> None:
    changed, removed = fieldset.compare(old, new, UNTYPED)
    assert (not changed and not removed) == (old == new)
    assert not members(changed) & members(removed)
