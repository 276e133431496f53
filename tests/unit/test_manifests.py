"""The committed manifests are what the code says, and their permissions suffice."""

from __future__ import annotations

import sys

from trainshed.operator import install, manifests, objects


def test_committed_manifests_are_up_to_date() -> None:
    assert manifests.differences() == [], "run `python -m trainshed.operator.manifests`"


def test_embedded_objects_run_this_interpreter() -> None:
    found = install.embedded_objects()
    workloads = [o for o in found if o["kind"] in ("Deployment", "Pod", "Job", "StatefulSet", "DaemonSet")]
    assert [o["metadata"]["name"] for o in workloads] == ["training-operator"]
    deployment = workloads[0]
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == [sys.executable, "-m", "trainshed.operator"]
    assert deployment["metadata"]["namespace"] == "kubeflow"
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "training-operator"
    assert deployment["spec"]["selector"]["matchLabels"] == {"control-plane": "kubeflow-training-operator"}
    found[-1]["spec"] = None
    assert install.embedded_objects()[-1]["spec"] is not None, "the caller owns its copy"


def test_on_kubernetes_it_meets_the_restricted_pod_security_standard() -> None:
    """Source: kubernetes.io/docs/concepts/security/pod-security-standards."""
    pod = objects.deployment()["spec"]["template"]["spec"]
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    assert "volumes" not in pod and "hostNetwork" not in pod


def test_on_kubernetes_and_embedded_only_the_command_the_user_and_the_first_probes_differ() -> None:
    embedded = install.embedded_objects(python="python", args=())
    here, there = (
        d["spec"]["template"]["spec"]["containers"][0] for d in (embedded[-1], objects.deployment())
    )
    assert here["startupProbe"]["httpGet"] == there["readinessProbe"]["httpGet"]
    assert here["startupProbe"]["periodSeconds"] == 1 and "initialDelaySeconds" not in here["readinessProbe"]
    del here["startupProbe"]
    here["readinessProbe"]["initialDelaySeconds"] = there["readinessProbe"]["initialDelaySeconds"]
    assert here["securityContext"].items() <= there["securityContext"].items()
    here["securityContext"] = there["securityContext"]
    assert embedded[-1] == objects.deployment()
    assert [o for o in embedded[:-1] if o["kind"] == "ClusterRole"] == [objects.cluster_role()]
