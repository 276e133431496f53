"""Server-side apply: merging, conflicts, removal, and the hand-over from client-side apply."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.kube.meta.errors import ApiError
from trainshed.kube.patch import fieldset
from trainshed.kube.patch.apply import apply
from trainshed.kube.patch.lastapplied import LAST_APPLIED
from trainshed.kube.patch.managedfields import entries_of, same_but_times, track_update
from trainshed.kube.patch.types import json_patch
from trainshed.kube.schema.nodes import SchemaNode, builtin, from_crd

CONFIGMAP = builtin(("", "v1", "ConfigMap"))
POD = builtin(("", "v1", "Pod"))
DEPLOYMENT = builtin(("apps", "v1", "Deployment"))
T0, T1 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"


def configmap(**data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": data}


def pod(*containers: Any, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {**spec, "containers": list(containers)},
    }


def applied(
    live: Any,
    config: Any,
    manager: str = "one",
    *,
    schema: SchemaNode = CONFIGMAP,
    force: bool = False,
    subresource: str = "",
    has_status: bool = False,
    now: str = T1,
) -> dict[str, Any]:
    before = copy.deepcopy((live, config))
    result = apply(
        live,
        config,
        schema,
        manager=manager,
        force=force,
        subresource=subresource,
        now=now,
        has_status=has_status,
    )
    assert (live, config) == before, "arguments were changed"
    return result


def updated(live: Any, new: Any, manager: str, schema: SchemaNode = CONFIGMAP) -> dict[str, Any]:
    return track_update(live, new, schema, manager=manager, subresource="", now=T0)


def owners(obj: Any) -> dict[str, list[str]]:
    return {f"{e['manager']}/{e['operation']}": list(fieldset.paths(e["fieldsV1"])) for e in entries_of(obj)}


def refused(live: Any, config: Any, manager: str = "one", **options: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        applied(live, config, manager, **options)
    return caught.value


def test_creates_what_is_missing() -> None:
    created = applied(None, configmap(a="1"))
    assert created["data"] == {"a": "1"}
    assert created["metadata"]["managedFields"] == [
        {
            "manager": "one",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": T1,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}}},
        }
    ]


def test_conflict_text_is_upstreams() -> None:
    live = updated(None, configmap(a="1", b="2"), "upd")
    error = refused(live, configmap(b="9"))
    assert error.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 1 conflict: conflict with "upd" using v1: .data.b',
        "reason": "Conflict",
        "details": {
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "upd" using v1',
                    "field": ".data.b",
                }
            ]
        },
        "code": 409,
    }


def test_several_conflicts_are_grouped_by_manager() -> None:
    live = updated(None, configmap(a="1", b="2"), "upd")
    live = applied(live, configmap(c="3"), "app")
    error = refused(live, configmap(a="9", b="9", c="9"))
    assert error.message == (
        'Apply failed with 3 conflicts: conflicts with "app":\n- .data.c\n'
        'conflicts with "upd" using v1:\n- .data.a\n- .data.b'
    )
    assert [cause.field for cause in error.causes] == [".data.c", ".data.a", ".data.b"]


def test_force_takes_the_field() -> None:
    live = updated(None, configmap(a="1", b="2"), "upd")
    after = applied(live, configmap(b="9"), force=True)
    assert after["data"] == {"a": "1", "b": "9"}
    assert owners(after) == {"one/Apply": [".data.b"], "upd/Update": [".data", ".data.a"]}


def test_the_same_value_is_shared() -> None:
    live = applied(None, configmap(a="1"), "one")
    after = applied(live, configmap(a="1"), "two")
    assert owners(after) == {"one/Apply": [".data.a"], "two/Apply": [".data.a"]}
    # one lets go: two still owns it, so it stays
    assert applied(after, configmap(), "one")["data"] == {"a": "1"}


def test_fields_no_longer_named_are_removed_unless_owned_by_others() -> None:
    live = applied(None, configmap(a="1", b="2"), "one")
    live = updated(live, {**live, "data": {**live["data"], "c": "3"}}, "two")
    after = applied(live, configmap(b="2"), "one")
    assert after["data"] == {"b": "2", "c": "3"}
    assert owners(after)["one/Apply"] == [".data.b"]


def test_containers_merge_by_name_and_keep_their_defaults() -> None:
    live = copy.deepcopy(
        applied(None, pod({"name": "a", "image": "x"}, {"name": "b", "image": "y"}), schema=POD)
    )
    live["spec"]["containers"][0]["terminationMessagePath"] = "/dev/termination-log"  # a default: nobody's
    after = applied(live, pod({"name": "a", "image": "z"}, {"name": "b", "image": "y"}), schema=POD)
    assert after["spec"]["containers"][0] == {
        "name": "a",
        "image": "z",
        "terminationMessagePath": "/dev/termination-log",
    }
    gone = applied(after, pod({"name": "b", "image": "y"}), schema=POD)
    assert gone["spec"]["containers"] == [{"name": "b", "image": "y"}]


def test_an_item_of_others_stays() -> None:
    live = applied(None, pod({"name": "a", "image": "x"}), "one", schema=POD)
    live = applied(live, pod({"name": "b", "image": "y"}), "two", schema=POD)
    assert [c["name"] for c in live["spec"]["containers"]] == ["a", "b"]
    after = applied(live, pod(), "one", schema=POD)
    assert [c["name"] for c in after["spec"]["containers"]] == ["b"]


def test_a_dropped_struct_goes_with_its_defaults() -> None:
    probe = {"httpGet": {"path": "/", "port": 80}}
    live = applied(None, pod({"name": "a", "image": "x", "livenessProbe": probe}), schema=POD)
    live["spec"]["containers"][0]["livenessProbe"] = {**probe, "periodSeconds": 10}
    after = applied(live, pod({"name": "a", "image": "x"}), schema=POD)
    assert after["spec"]["containers"] == [{"name": "a", "image": "x"}]


def test_ports_are_keyed_with_the_default_protocol() -> None:
    config = pod({"name": "a", "image": "x", "ports": [{"containerPort": 80}]})
    live = copy.deepcopy(applied(None, config, schema=POD))
    live["spec"]["containers"][0]["ports"][0]["protocol"] = "TCP"
    after = applied(live, config, schema=POD)
    assert after["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert same_but_times(live, after)


def test_atomic_values_conflict_and_replace_whole() -> None:
    live = updated(None, pod({"name": "a", "args": ["x"]}, nodeSelector={"a": "1"}), "upd", POD)
    error = refused(live, pod({"name": "a", "args": ["y"]}, nodeSelector={"b": "2"}), schema=POD)
    assert {cause.field for cause in error.causes} == {
        '.spec.containers[name="a"].args',
        ".spec.nodeSelector",
    }
    after = applied(live, pod({"name": "a", "args": ["y"]}, nodeSelector={"b": "2"}), schema=POD, force=True)
    assert after["spec"]["nodeSelector"] == {"b": "2"}


@pytest.mark.parametrize(
    ("live", "config", "result"),
    [("abx", "cb", "acbx"), ("ab", "ba", "ba"), ("xy", "ab", "xyab"), ("", "ab", "ab"), ("axb", "ab", "axb")],
)
def test_the_applied_order_holds(live: str, config: str, result: str) -> None:
    start = updated(None, pod(*({"name": n} for n in live)), "upd", POD)
    after = applied(start, pod(*({"name": n} for n in config)), schema=POD)
    assert "".join(c["name"] for c in after["spec"]["containers"]) == result


def test_duplicate_keys_in_a_configuration_are_refused() -> None:
    live = applied(None, pod({"name": "a"}), schema=POD)
    assert refused(live, pod({"name": "a"}, {"name": "a"}), schema=POD).code == 400


def test_nulls_are_owned_and_take_nothing_from_others() -> None:
    config = {**configmap(a="1"), "metadata": {"name": "cm", "creationTimestamp": None, "labels": None}}
    live = {**configmap(), "metadata": {"name": "cm", "labels": {"of": "others"}}}
    created = applied(live, config)
    assert created["metadata"]["labels"] == {"of": "others"}
    assert owners(created)["one/Apply"] == [".data.a", ".metadata.labels"]


def test_nulls_that_are_values_stay() -> None:
    schema = from_crd(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "nullable": {"type": "string", "nullable": True},
                        "plain": {"type": "string"},
                        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    },
                }
            },
        }
    )
    spec = {"nullable": None, "plain": None, "free": {"x": None}}
    created = applied(None, custom(spec), schema=schema)
    assert created["spec"] == {"nullable": None, "free": {"x": None}}
    assert same_but_times(created, applied(created, custom(spec), schema=schema))


def test_status_belongs_to_its_subresource() -> None:
    config = {**pod({"name": "a"}), "status": {"phase": "Running"}}
    created = applied(None, config, schema=POD, has_status=True)
    assert "status" not in created
    after = applied(created, config, "kubelet", schema=POD, subresource="status", has_status=True)
    assert after["status"] == {"phase": "Running"}
    assert after["spec"] == created["spec"]
    assert [(e["manager"], e.get("subresource")) for e in entries_of(after)] == [
        ("kubelet", "status"),
        ("one", None),
    ]
    error = refused(after, {**config, "status": {"phase": "Failed"}}, "two", schema=POD, subresource="status")
    assert error.message.endswith('conflict with "kubelet" with subresource "status": .status.phase')


def test_untracked_objects_belong_to_before_first_apply() -> None:
    live = configmap(a="1")
    after = applied(live, configmap(a="1", b="2"))
    assert owners(after) == {
        "one/Apply": [".data.a", ".data.b"],
        "before-first-apply/Update": [".data", ".data.a"],
    }
    assert 'conflict with "before-first-apply" using v1' in refused(live, configmap(a="9")).message


def test_preconditions_and_malformed_configurations() -> None:
    live = {**configmap(a="1"), "metadata": {"name": "cm", "uid": "u", "resourceVersion": "5"}}
    with_rv = {**configmap(a="2"), "metadata": {"name": "cm", "resourceVersion": "4"}}
    assert applied(live, with_rv, force=True)["metadata"]["resourceVersion"] == "4"  # for the write to refuse
    assert applied(None, with_rv)["data"] == {"a": "2"}
    other = refused(live, {**configmap(), "metadata": {"name": "cm", "uid": "other"}})
    assert (other.code, [cause.field for cause in other.causes]) == (422, ["metadata.uid"] * 2)
    assert refused(None, {**configmap(), "metadata": {"name": "cm", "uid": "other"}}).code == 409
    assert applied(live, {**configmap(a="2"), "metadata": {"resourceVersion": "5", "uid": "u"}}, force=True)
    managed = refused(live, {**configmap(), "metadata": {"managedFields": []}})
    assert (managed.code, managed.message) == (400, "metadata.managedFields must be nil")
    assert refused(live, {"kind": "ConfigMap"}).code == 400
    assert refused(live, {"apiVersion": "v1"}).code == 400


def test_kubectl_moves_from_client_side_to_server_side_apply() -> None:
    """The four PATCHes of `kubectl apply --server-side` over a client-side applied object, all without force."""
    last = json.dumps(configmap(a="1", b="2")) + "\n"
    start = configmap(a="1", b="2")
    start["metadata"]["annotations"] = {LAST_APPLIED: last}
    live = updated(None, start, "kubectl-client-side-apply")
    config = configmap(a="9")

    live = applied(live, config, "kubectl")  # 1: allowed although .data.a differs: nobody touched it since
    assert live["data"] == {"a": "9", "b": "2"}
    annotation = live["metadata"]["annotations"][LAST_APPLIED]
    assert json.loads(annotation)["data"] == {"a": "9"}

    keep = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cm", "annotations": {LAST_APPLIED: annotation}},
    }
    live = applied(live, keep, "kubectl-last-applied")  # 2
    assert any(name == "kubectl-last-applied/Apply" for name in owners(live))

    entries = entries_of(live)  # 3: kubectl joins the client-side entry into its own
    old = next(e for e in entries if e["manager"] == "kubectl-client-side-apply")
    own = next(e for e in entries if e["manager"] == "kubectl")
    joined = {**own, "fieldsV1": fieldset.union(own["fieldsV1"], old["fieldsV1"])}
    kept = [joined, *(e for e in entries if e not in (old, own))]
    patch = [
        {"op": "replace", "path": "/metadata/managedFields", "value": kept},
    ]
    live = updated(live, json_patch(live, patch), "kubectl")
    assert "kubectl-client-side-apply/Update" not in owners(live)

    live = applied(live, config, "kubectl")  # 4: now b, applied by nobody any more, goes
    assert live["data"] == {"a": "9"}
    assert LAST_APPLIED in live["metadata"]["annotations"]
    again = applied(live, config, "kubectl", now="2026-02-02T00:00:00Z")
    assert same_but_times(live, again)


def test_kubectl_conflicts_when_somebody_changed_a_client_side_applied_value() -> None:
    start = configmap(a="1")
    start["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(configmap(a="1"))}
    live = updated(None, start, "kubectl-client-side-apply")
    live = updated(live, {**live, "data": {"a": "5"}}, "someone")
    assert refused(live, configmap(a="9"), "kubectl").causes[0].field == ".data.a"
    assert refused(live, configmap(a="9"), "other").code == 409


def test_an_annotation_that_grows_too_large_is_dropped() -> None:
    start = configmap(a="1")
    start["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(configmap(a="1"))}
    live = updated(None, start, "kubectl-client-side-apply")
    after = applied(live, configmap(a="x" * 300_000), "kubectl", force=True)
    assert LAST_APPLIED not in after["metadata"].get("annotations", {})


CUSTOM = from_crd(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "map": {"type": "object", "additionalProperties": {"type": "string"}},
                    "list": {"type": "array", "items": {"type": "string"}},
                    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "keyed": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["id"],
                        "items": {
                            "type": "object",
                            "properties": {
                                "id": {"type": "string"},
                                "v": {"type": "integer"},
                                "w": {"type": "integer"},
                            },
                        },
                    },
                },
            }
        },
    }
)
_IDS = st.sampled_from("abc")
_KEYED = st.lists(
    st.fixed_dictionaries({"id": _IDS}, optional={"v": st.integers(0, 2), "w": st.integers(0, 2)}),
    min_size=1,  # of an empty list of items nothing is owned, as upstream
    max_size=3,
    unique_by=lambda item: item["id"],
)
_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "map": st.dictionaries(_IDS, st.sampled_from("12"), max_size=3),
        "list": st.lists(_IDS, max_size=2),
        "set": st.lists(_IDS, min_size=1, max_size=3, unique=True),
        "keyed": _KEYED,
    },
)


def custom(spec: Any) -> dict[str, Any]:
    return {"apiVersion": "g/v1", "kind": "W", "metadata": {"name": "w"}, "spec": spec}


@given(st.lists(st.tuples(st.sampled_from(["one", "two"]), _SPECS), min_size=1, max_size=5))
def test_applying_twice_changes_nothing_and_the_configuration_holds(steps: list[tuple[str, Any]]) -> None:
    live: Any = None
    for manager, spec in steps:
        live = applied(live, custom(spec), manager, schema=CUSTOM, force=True, has_status=True)
        again = applied(live, custom(spec), manager, schema=CUSTOM, now="2026-05-05T00:00:00Z")
        assert same_but_times(live, again)
        assert again == live, "an apply that changes nothing keeps the time as well"
        for key, value in spec.get("map", {}).items():
            assert live["spec"]["map"][key] == value
        if "list" in spec:
            assert live["spec"]["list"] == spec["list"]
        order = [item["id"] for item in live["spec"].get("keyed", [])]
        wanted = [item["id"] for item in spec.get("keyed", [])]
        assert [i for i in order if i in wanted] == wanted
        assert set(spec.get("set", [])) <= set(live["spec"].get("set", []))


@given(_SPECS, _SPECS)
def test_a_manager_alone_gets_exactly_its_configuration(first: Any, second: Any) -> None:
    live = applied(None, custom(first), schema=CUSTOM)
    after = applied(live, custom(second), schema=CUSTOM)
    kept = {key: value for key, value in after["spec"].items() if value or key in second}
    assert {k: _unordered(v) for k, v in kept.items()} == {k: _unordered(v) for k, v in second.items()}


def _unordered(value: Any) -> Any:
    return (
        sorted(value, key=lambda item: json.dumps(item, sort_keys=True)) if isinstance(value, list) else value
    )
