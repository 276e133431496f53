"""Strategic merge patch against the real schemas of Pod, Deployment, Service and ObjectMeta."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from trainshed.kube.meta.errors import ApiError
from trainshed.kube.patch.strategic import strategic_merge
from trainshed.kube.schema.nodes import SchemaNode, builtin

POD = builtin(("", "v1", "Pod"))
DEPLOYMENT = builtin(("apps", "v1", "Deployment"))


def merged(target: Any, patch: Any, schema: SchemaNode = POD) -> Any:
    """Apply and check that nothing was changed in place."""
    before = copy.deepcopy((target, patch))
    result = strategic_merge(target, patch, schema)
    assert (target, patch) == before
    return result


def pod_spec(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


def test_maps_merge_and_null_deletes() -> None:
    target = {"metadata": {"labels": {"a": "1", "b": "2"}}}
    assert merged(target, {"metadata": {"labels": {"a": None, "c": "3"}}}) == {
        "metadata": {"labels": {"b": "2", "c": "3"}}
    }


def test_nulls_in_a_new_map_leave_nothing() -> None:
    assert merged({}, {"metadata": {"labels": {"a": None, "b": "1"}}}) == {"metadata": {"labels": {"b": "1"}}}


def test_keyed_list_merges_by_key_and_takes_the_order_of_the_patch() -> None:
    target = pod_spec(
        containers=[{"name": "a", "image": "x", "env": [{"name": "E", "value": "1"}]}, {"name": "b"}]
    )
    patch = pod_spec(
        containers=[{"name": "c"}, {"name": "a", "image": "y", "env": [{"name": "F", "value": "2"}]}]
    )
    assert merged(target, patch)["spec"]["containers"] == [
        {"name": "c"},
        {"name": "a", "image": "y", "env": [{"name": "F", "value": "2"}, {"name": "E", "value": "1"}]},
        {"name": "b"},
    ]


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ("initContainers", "name"),
        ("ephemeralContainers", "name"),
        ("volumes", "name"),
        ("imagePullSecrets", "name"),
        ("schedulingGates", "name"),
        ("resourceClaims", "name"),
        ("hostAliases", "ip"),
        ("topologySpreadConstraints", "topologyKey"),
    ],
)
def test_keyed_lists_of_a_pod(field: str, key: str) -> None:
    target = pod_spec(**{field: [{key: "a"}, {key: "b"}]})
    result = merged(target, pod_spec(**{field: [{key: "b", "x": 1}]}))
    assert result["spec"][field] == [{key: "a"}, {key: "b", "x": 1}]


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ("env", "name"),
        ("ports", "containerPort"),
        ("volumeMounts", "mountPath"),
        ("volumeDevices", "devicePath"),
    ],
)
def test_keyed_lists_of_a_container(field: str, key: str) -> None:
    target = pod_spec(containers=[{"name": "c", field: [{key: 1}, {key: 2}]}])
    result = merged(target, pod_spec(containers=[{"name": "c", field: [{key: 2, "x": 1}]}]))
    assert result["spec"]["containers"][0][field] == [{key: 1}, {key: 2, "x": 1}]


@pytest.mark.parametrize(
    ("group", "version", "kind"),
    [
        ("", "v1", "Pod"),
        ("", "v1", "Node"),
        ("", "v1", "Namespace"),
        ("", "v1", "Service"),
        ("", "v1", "PersistentVolumeClaim"),
        ("", "v1", "ReplicationController"),
        ("batch", "v1", "Job"),
        ("apps", "v1", "Deployment"),
        ("apps", "v1", "ReplicaSet"),
        ("apps", "v1", "DaemonSet"),
        ("apps", "v1", "StatefulSet"),
        ("autoscaling", "v2", "HorizontalPodAutoscaler"),
        ("policy", "v1", "PodDisruptionBudget"),
    ],
)
def test_conditions_merge_by_type(group: str, version: str, kind: str) -> None:
    target = {"status": {"conditions": [{"type": "A", "status": "True"}]}}
    patch = {"status": {"conditions": [{"type": "B", "status": "True"}]}}
    result = merged(target, patch, builtin((group, version, kind)))
    assert [c["type"] for c in result["status"]["conditions"]] == ["B", "A"]


@pytest.mark.parametrize("field", ["tolerations", "readinessGates"])
def test_other_lists_are_replaced(field: str) -> None:
    assert merged(pod_spec(**{field: [{"key": "a"}]}), pod_spec(**{field: [{"key": "b"}]}))["spec"][
        field
    ] == [{"key": "b"}]


def test_args_are_replaced() -> None:
    target = pod_spec(containers=[{"name": "c", "args": ["a", "b"], "envFrom": [{"prefix": "x"}]}])
    patch = pod_spec(containers=[{"name": "c", "args": ["b"], "envFrom": []}])
    assert merged(target, patch)["spec"]["containers"] == [{"name": "c", "args": ["b"], "envFrom": []}]


def test_delete_directive_removes_an_item() -> None:
    target = pod_spec(containers=[{"name": "a"}, {"name": "b"}])
    assert merged(target, pod_spec(containers=[{"$patch": "delete", "name": "a"}])) == pod_spec(
        containers=[{"name": "b"}]
    )
    assert merged(target, pod_spec(containers=[{"$patch": "delete", "name": "z"}])) == target


def test_replace_directive() -> None:
    target = pod_spec(containers=[{"name": "a"}, {"name": "b"}], nodeSelector={"x": "1", "y": "2"})
    assert merged(target, pod_spec(containers=[{"$patch": "replace"}, {"name": "c"}]))["spec"][
        "containers"
    ] == [{"name": "c"}]
    replaced = merged(target, pod_spec(nodeSelector={"$patch": "replace", "z": "3"}))
    assert replaced["spec"]["nodeSelector"] == {"z": "3"}
    with_a_key = pod_spec(containers=[{"$patch": "replace", "name": "a"}, {"name": "c"}])
    assert merged(target, with_a_key)["spec"]["containers"] == [{"name": "c"}]


def test_the_delete_directive_of_a_map() -> None:
    assert merged(pod_spec(nodeSelector={"x": "1"}), pod_spec(nodeSelector={"$patch": "delete"})) == pod_spec(
        nodeSelector={}
    )


@pytest.mark.parametrize(
    ("value", "becomes"),
    [
        ({"$patch": "delete"}, {}),
        ({"$patch": "bogus", "y": "2"}, {}),
        ({"x": None, "y": "2"}, {"nodeSelector": {"y": "2"}}),
        ({"y": {"$patch": "delete"}, "z": "3"}, {"nodeSelector": {"z": "3"}}),
        ([{"$patch": "replace"}, {"name": "a"}], {"nodeSelector": [{"name": "a"}]}),
        ({"$setElementOrder/y": []}, {"nodeSelector": {"$setElementOrder/y": []}}),
    ],
)
def test_a_field_that_is_new_takes_what_is_no_directive(value: Any, becomes: Any) -> None:
    assert merged({"spec": {}}, pod_spec(nodeSelector=value)) == {"spec": becomes}


def test_a_new_item_is_taken_as_it_is() -> None:
    item = {"name": "b", "env": [{"$patch": "delete", "name": "E"}]}
    target = pod_spec(containers=[{"name": "a"}])
    assert merged(target, pod_spec(containers=[item]))["spec"]["containers"] == [item, {"name": "a"}]


def test_scalars_that_are_none_are_not_taken_out() -> None:
    target = {"metadata": {"finalizers": ["a/x"]}}
    assert merged(target, {"metadata": {"$deleteFromPrimitiveList/finalizers": "a/x"}}) == target
    assert merged(target, {"metadata": {"$deleteFromPrimitiveList/other": ["a/x"]}}) == target
    assert merged(target, {"metadata": {"$deleteFromPrimitiveList/finalizers": None}}) == {"metadata": {}}


def test_retain_keys_drops_the_other_members_of_a_union() -> None:
    target = pod_spec(volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}])
    patch = pod_spec(
        volumes=[{"$retainKeys": ["name", "configMap"], "name": "v", "configMap": {"name": "c"}}]
    )
    assert merged(target, patch) == pod_spec(volumes=[{"name": "v", "configMap": {"name": "c"}}])
    strategy = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    recreate = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert merged(strategy, recreate, DEPLOYMENT) == {"spec": {"strategy": {"type": "Recreate"}}}


def test_finalizers_merge_as_a_set_and_are_deleted_by_directive() -> None:
    target = {"metadata": {"finalizers": ["a/x", "b/x"]}}
    assert merged(target, {"metadata": {"finalizers": ["b/x", "c/x"]}})["metadata"]["finalizers"] == [
        "a/x",
        "b/x",
        "c/x",
    ]
    gone = merged(target, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/x"]}})
    assert gone == {"metadata": {"finalizers": ["b/x"]}}
    swapped = merged(
        target,
        {
            "metadata": {
                "$deleteFromPrimitiveList/finalizers": ["a/x"],
                "$setElementOrder/finalizers": ["c/x", "b/x"],
                "finalizers": ["c/x"],
            }
        },
    )
    assert swapped == {"metadata": {"finalizers": ["c/x", "b/x"]}}


@pytest.mark.parametrize(
    ("live", "order", "result"),
    [
        ("abc", "cba", "cba"),
        ("axb", "ba", "xba"),  # x, the server's own, stood before b and after a: it stays in front of b
        ("xab", "ba", "xba"),
        ("abx", "ba", "bax"),
        ("ab", "bna", "bna"),
        ("ab", "nab", "nab"),
    ],
)
def test_element_order(live: str, order: str, result: str) -> None:
    target = pod_spec(containers=[{"name": name, "image": "i"} for name in live])
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": name} for name in order],
            "containers": [{"name": name, "image": "i"} for name in order if name not in live],
        }
    }
    containers = merged(target, patch)["spec"]["containers"]
    assert "".join(container["name"] for container in containers) == result


def test_element_order_alone_reorders() -> None:
    target = pod_spec(containers=[{"name": "a"}, {"name": "b"}])
    patch = {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}
    assert merged(target, patch) == pod_spec(containers=[{"name": "b"}, {"name": "a"}])


def test_the_order_of_what_has_no_schema_is_left_alone() -> None:
    patch = {"unknown": {"$setElementOrder/list": ["b", "a"]}}
    assert merged({"unknown": {"list": ["a", "b"]}}, patch) == {"unknown": {"list": ["b", "a"]}}


def test_replace_strategy_of_a_disruption_budget_selector() -> None:
    budget = builtin(("policy", "v1", "PodDisruptionBudget"))
    target = {"spec": {"selector": {"matchLabels": {"a": "1"}}}}
    patch = {"spec": {"selector": {"matchLabels": {"b": "2"}}}}
    assert merged(target, patch, budget) == patch


def test_service_ports_merge_by_port() -> None:
    service = builtin(("", "v1", "Service"))
    target = {"spec": {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 1}]}}
    patch = {"spec": {"ports": [{"port": 80, "targetPort": 2}, {"port": 81}]}}
    assert merged(target, patch, service)["spec"]["ports"] == [
        {"port": 80, "protocol": "TCP", "targetPort": 2},
        {"port": 81},
    ]


_ORDER = "$setElementOrder/containers"


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ({"$patch": "bogus"}, "unknown patch type: bogus in map: map[$patch:bogus]"),
        ({"$patch": 7}, "unknown patch type: %!s(int64=7) in map: map[$patch:7]"),
        ({"$patch": None}, "unknown patch type: %!s(<nil>) in map: map[$patch:<nil>]"),
        ({"containers": [{"image": "x"}]}, "map: map[image:x] does not contain declared merge key: name"),
        (
            {"containers": [{"$patch": "delete"}]},
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            {"containers": [{"$patch": "merge", "name": "a"}]},
            "merging lists cannot yet be specified in the patch",
        ),
        (
            {"containers": [{"$patch": "bogus", "name": "a"}]},
            "unknown patch type: bogus in map: map[$patch:bogus name:a]",
        ),
        ({"containers": ["x"]}, "list element types are not identical: [[map[name:a]] [x]]"),
        ({_ORDER: "x"}, "expected a []interface {}, but received a string"),
        (
            {_ORDER: ["a"], "containers": [{"name": "a"}]},
            "expected a map[string]interface {}, but received a string",
        ),
        (
            {_ORDER: [{"name": "b"}], "containers": [{"name": "a"}]},
            "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
        ),
        (
            {_ORDER: [{"name": "a"}, {"name": "b"}], "containers": [{"name": "b"}, {"name": "a"}]},
            "The order in patch list:\n[map[name:b] map[name:a]]\n doesn't match"
            " $setElementOrder list:\n[map[name:a] map[name:b]]\n",
        ),
        ({"$setElementOrder": []}, "invalid patch format of setElementOrder list"),
        ({"$deleteFromPrimitiveList": []}, "invalid patch format of primitive list"),
        (
            {"nodeSelector": {"$setElementOrder/x": []}},
            "merging an object in json but data type is not struct, instead is: map",
        ),
        ({"$retainKeys": "x"}, "invalid patch format of retainKeys"),
        ({"$retainKeys": ["nodeName"], "hostname": "x"}, "invalid patch format of retainKeys"),
    ],
)
def test_malformed_patches_are_400(patch: Any, why: str) -> None:
    target = pod_spec(containers=[{"name": "a"}], nodeSelector={"a": "b"})
    with pytest.raises(ApiError) as caught:
        strategic_merge(target, {"spec": patch}, POD)
    assert (caught.value.code, caught.value.message) == (400, why)


class Counted(str):
    """A name that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str(self) == str(other)


@pytest.mark.parametrize(
    ("field", "item"),
    [("finalizers", str), ("ownerReferences", lambda name: {"uid": name})],
)
@pytest.mark.parametrize("directive", ["", "$deleteFromPrimitiveList/", "$setElementOrder/"])
def test_long_lists_are_not_compared_item_by_item(field: str, item: Any, directive: str) -> None:
    def items(*names: range) -> list[Any]:
        made = [Counted(f"a.b/{number}") for numbers in names for number in numbers]
        return [name if item is str else item(name) for name in made]

    count = 2_000
    target = {"metadata": {field: items(range(count))}}
    patch: dict[str, Any] = {f"{directive}{field}": items(range(count // 2, 2 * count))[::-1]}
    if directive == "$setElementOrder/":
        patch[field] = items(range(count, 2 * count))[::-1]
    Counted.compared = 0
    strategic_merge(target, {"metadata": patch}, POD)
    assert Counted.compared < 20 * count
