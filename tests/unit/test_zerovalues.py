from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.patch import fieldset
from trainshed.kube.schema.decode import conform
from trainshed.kube.schema.definitions import definitions
from trainshed.kube.schema.nodes import builtin
from trainshed.kube.schema.zerovalues import NO_ZEROS, zeros_of

DEPLOYMENT = builtin(("apps", "v1", "Deployment"))
POD = builtin(("", "v1", "Pod"))


def shown(obj: Any, schema: Any) -> Any:
    return conform(obj, schema, mode="strict", what="", builtin=True, shown=True)[0]


def test_every_field_of_the_table_is_one_of_its_definition() -> None:
    known = [name for name in definitions() if zeros_of(name) is not NO_ZEROS]
    assert len(known) > 300
    assert zeros_of("io.k8s.api.apps.v1.DeploymentSpec").values == {
        "selector": None,
        "template": {},
        "strategy": {},
    }


def test_structs_and_times_are_always_there() -> None:
    template = {"metadata": {"creationTimestamp": None}, "spec": {}}
    spec = {"strategy": {}, "template": template}
    assert shown({"spec": {}}, DEPLOYMENT) == {
        "metadata": {"creationTimestamp": None},
        "spec": spec,
        "status": {},
    }


def test_other_fields_are_left_out_at_their_zero_value() -> None:
    spec = {"hostNetwork": False, "nodeSelector": {}, "tolerations": [], "nodeName": "", "containers": []}
    assert shown({"spec": spec}, POD)["spec"] == {"containers": []}


@pytest.mark.parametrize(
    "spec",
    [
        {"enableServiceLinks": False, "priority": 0, "securityContext": {}},
        {"volumes": [{"name": "v", "emptyDir": {}}]},
    ],
)
def test_pointers_stay(spec: Any) -> None:
    assert shown({"spec": spec}, POD)["spec"] == spec


def test_entries_of_maps_stay() -> None:
    config = builtin(("", "v1", "ConfigMap"))
    assert shown({"data": {"empty": ""}}, config)["data"] == {"empty": ""}


def test_what_was_always_there_is_nobodys() -> None:
    new = shown({"spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "c"}]}}}}, DEPLOYMENT)
    changed, removed = fieldset.compare({}, new, DEPLOYMENT)
    container = {".": {}, "f:name": {}, "f:resources": {}}
    containers = {"f:spec": {"f:containers": {'k:{"name":"c"}': container}}}
    assert changed == {"f:spec": {"f:selector": {}, "f:template": containers}}
    assert not removed
