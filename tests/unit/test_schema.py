"""Compiled schemas: what the data file says, normalised, and what a CRD says."""

from msgspec import UNSET

from trainshed.kube.schema import nodes as schema
from trainshed.kube.schema.definitions import builtin_definition, definitions

POD = ("", "v1", "Pod")


def at(node, path):
    for step in path.split("."):
        node = node.items if step == "[]" else node.additional if step == "{}" else node.properties[step]
    return node


def test_list_types_of_a_pod():
    containers = at(schema.builtin(POD), "spec.containers")
    assert (containers.type, containers.list_type, containers.list_map_keys) == ("array", "map", ("name",))
    assert (containers.patch_merge_key, containers.patch_strategy) == ("name", "merge")
    assert at(containers, "[].ports").list_map_keys == ("containerPort", "protocol")
    assert at(containers, "[].ports.[].protocol").default == "TCP"
    assert at(schema.builtin(POD), "spec.tolerations").list_type == "atomic"
    assert at(schema.builtin(POD), "metadata.finalizers").list_type == "set"
    assert at(schema.builtin(POD), "spec.nodeSelector").map_type == "atomic"


def test_special_types():
    limits = at(schema.builtin(POD), "spec.containers.[].resources.limits.{}")
    assert limits.quantity and not limits.int_or_string
    assert at(schema.builtin(("", "v1", "Service")), "spec.ports.[].targetPort").int_or_string
    assert at(schema.builtin(POD), "metadata.creationTimestamp").time == "Time"
    assert at(schema.builtin(("coordination.k8s.io", "v1", "Lease")), "spec.renewTime").time == "MicroTime"
    assert at(schema.builtin(("", "v1", "Secret")), "data.{}").format == "byte"
    assert at(schema.builtin(("apps", "v1", "ControllerRevision")), "data").preserve_unknown
    crd = schema.builtin(("apiextensions.k8s.io", "v1", "CustomResourceDefinition"))
    assert at(crd, "spec.versions.[].schema.openAPIV3Schema").preserve_unknown


def test_annotations_beside_a_reference_win():
    deployment = schema.builtin(("apps", "v1", "Deployment"))
    strategy = at(deployment, "spec.strategy")
    assert strategy.patch_strategy == "retainKeys"
    assert set(strategy.properties) == {"rollingUpdate", "type"}
    assert schema.definition("io.k8s.api.apps.v1.DeploymentStrategy").patch_strategy == ""


def test_kinds_without_a_definition_are_untyped():
    assert schema.builtin(("metrics.k8s.io", "v1beta1", "NodeMetrics")) is schema.UNTYPED
    assert schema.UNTYPED.child("anything") is schema.UNTYPED
    assert schema.builtin(POD).child("anything") is None


def test_every_definition_compiles():
    for name in definitions():
        node = schema.definition(name)
        assert isinstance(node.properties, dict) and node.description == ""
    assert "description" in builtin_definition("io.k8s.api.core.v1.Pod")


def test_custom_resources_have_typed_metadata():
    """`metadata: {type: object}` is what every generated CRD says; it must not empty the metadata."""
    node = schema.from_crd(
        {
            "type": "object",
            "properties": {
                "metadata": {"type": "object"},
                "spec": {"type": "object", "properties": {"max": {"type": "integer", "default": 50}}},
                "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "any": {"type": "object", "additionalProperties": True},
            },
        }
    )
    assert at(node, "metadata.labels").type == "object" and at(node, "metadata").builtin
    assert at(node, "spec.max").default == 50 and at(node, "spec").default is UNSET
    assert node.with_defaults and not node.with_rules and not at(node, "raw").with_defaults
    assert at(node, "raw").child("x") is schema.UNTYPED
    assert at(node, "any").child("x") is schema.UNTYPED
