"""Pod Security standards: what each rule forbids, in the words of the API server."""

from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.meta.objects import Object
from trainshed.kube.policy.security import (
    Standard,
    described,
    existing_violations,
    label_causes,
    standard,
    template_of,
    violations,
)
from trainshed.kube.policy.securityrules import BASELINE, RESTRICTED

HARDENED: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pod(*contexts: Object, **spec: Any) -> Object:
    """Return a pod's spec with a container for each security context."""
    names = "abcdef"
    made = [{"name": names[i], "securityContext": context} for i, context in enumerate(contexts or ({},))]
    return {"containers": made, **spec}


def said(level: str, spec: Object, **annotations: str) -> str:
    return described(violations(Standard(level), {"annotations": annotations}, spec))


BASELINE_CASES: list[tuple[Object, str]] = [
    (pod({"privileged": True}), 'privileged (container "a" must not set securityContext.privileged=true)'),
    (pod(hostNetwork=True, hostPID=True), "host namespaces (hostNetwork=true, hostPID=true)"),
    (pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), 'hostPath volumes (volume "v")'),
    (
        {
            "containers": [
                {"name": "a", "ports": [{"hostPort": 80}]},
                {"name": "b", "ports": [{"hostPort": 81}]},
            ]
        },
        'hostPorts (containers "a", "b" use hostPorts 80, 81)',
    ),
    (
        pod({"capabilities": {"add": ["NET_ADMIN", "CHOWN"]}}),
        'non-default capabilities (container "a" must not include "NET_ADMIN" in securityContext.capabilities.add)',
    ),
    (
        pod({"procMount": "Unmasked"}),
        'procMount (container "a" must not set securityContext.procMount to "Unmasked")',
    ),
    (
        pod({}, securityContext={"seccompProfile": {"type": "Unconfined"}}),
        'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    (
        pod({"seLinuxOptions": {"type": "spc_t", "user": "u"}}),
        'seLinuxOptions (container "a" set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not'
        " be set)",
    ),
    (
        pod(securityContext={"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}]}),
        "forbidden sysctls (kernel.msgmax)",
    ),
    (
        pod({"windowsOptions": {"hostProcess": True}}),
        'hostProcess (container "a" must not set securityContext.windowsOptions.hostProcess=true)',
    ),
    (
        pod({"appArmorProfile": {"type": "Unconfined"}}),
        'forbidden AppArmor profile (container "a" must not set AppArmor profile type to "Unconfined")',
    ),
]
RESTRICTED_CASES: list[tuple[Object, str]] = [
    (
        pod({**HARDENED, "allowPrivilegeEscalation": None}),
        'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)',
    ),
    (
        pod({**HARDENED, "capabilities": {"add": ["CHOWN"]}}),
        'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]; container "a"'
        ' must not include "CHOWN" in securityContext.capabilities.add)',
    ),
    (
        pod(
            HARDENED,
            volumes=[{"name": "v", "hostPath": {}}, {"name": "w", "nfs": {}}, {"name": "x", "secret": {}}],
        ),
        'restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs")',
    ),
    (
        pod({**HARDENED, "runAsNonRoot": None}),
        'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)',
    ),
    (
        pod({**HARDENED, "runAsNonRoot": False}),
        'runAsNonRoot != true (container "a" must not set securityContext.runAsNonRoot=false)',
    ),
    (pod({**HARDENED, "runAsUser": 0}), 'runAsUser=0 (container "a" must not set runAsUser=0)'),
    (
        pod({**HARDENED, "seccompProfile": None}),
        'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or'
        ' "Localhost")',
    ),
]


@pytest.mark.parametrize(("spec", "text"), BASELINE_CASES)
def test_what_baseline_forbids(spec: Object, text: str) -> None:
    assert said("baseline", spec) == text
    assert said("privileged", spec) == ""


@pytest.mark.parametrize(("spec", "text"), RESTRICTED_CASES)
def test_what_restricted_forbids_besides(spec: Object, text: str) -> None:
    assert said("restricted", spec) == text


def test_every_rule_is_tried() -> None:
    baseline = {
        violation.reason
        for spec, _ in BASELINE_CASES
        for violation in violations(Standard("baseline"), {}, spec)
    }
    restricted = {
        v.reason for spec, _ in RESTRICTED_CASES for v in violations(Standard("restricted"), {}, spec)
    }
    assert len(baseline) == len(BASELINE) and len(restricted) == len(RESTRICTED)


def test_a_hardened_pod_is_allowed() -> None:
    assert said("restricted", pod(HARDENED, {**HARDENED, "runAsUser": 1000})) == ""
    inherited = pod(
        {key: HARDENED[key] for key in ("allowPrivilegeEscalation", "capabilities")},
        securityContext={key: HARDENED[key] for key in ("runAsNonRoot", "seccompProfile")},
    )
    assert said("restricted", inherited) == ""


def test_a_plain_pod_is_told_all_in_order() -> None:
    assert [v.reason for v in violations(Standard("restricted"), {}, pod({}, hostNetwork=True))] == [
        "host namespaces",
        "allowPrivilegeEscalation != false",
        "unrestricted capabilities",
        "runAsNonRoot != true",
        "seccompProfile",
    ]


def test_an_init_container_counts_and_annotations_too() -> None:
    spec = {"initContainers": [{"name": "i", "securityContext": {"privileged": True}}], "containers": []}
    assert said("baseline", spec) == 'privileged (container "i" must not set securityContext.privileged=true)'
    key = "container.apparmor.security.beta.kubernetes.io/a"
    assert said("baseline", pod(), **{key: "unconfined"}).startswith("forbidden AppArmor profile (annotation")
    assert said("baseline", pod(), **{key: "runtime/default"}) == ""


@pytest.mark.parametrize(
    ("labels", "mode", "wanted"),
    [
        ({}, "enforce", "privileged:latest"),
        ({"enforce": "baseline"}, "enforce", "baseline:latest"),
        ({"enforce": "baseline"}, "warn", "privileged:latest"),
        ({"warn": "restricted", "warn-version": "v1.29"}, "warn", "restricted:v1.29"),
        ({"enforce": "strict"}, "enforce", "privileged:latest"),
    ],
)
def test_what_a_namespace_asks_for(labels: dict[str, str], mode: str, wanted: str) -> None:
    named = {f"pod-security.kubernetes.io/{name}": value for name, value in labels.items()}
    assert str(standard({"metadata": {"labels": named}}, mode)) == wanted


def test_wrong_labels() -> None:
    labels = {
        "pod-security.kubernetes.io/enforce": "strict",
        "pod-security.kubernetes.io/warn-version": "1.29",
    }
    found = [(cause.field, cause.message) for cause in label_causes({"metadata": {"labels": labels}})]
    assert found == [
        (
            "metadata.labels[pod-security.kubernetes.io/enforce]",
            'Invalid value: "strict": must be one of privileged, baseline, restricted',
        ),
        (
            "metadata.labels[pod-security.kubernetes.io/warn-version]",
            'Invalid value: "1.29": must be "latest" or "v1.x"',
        ),
    ]


def test_pods_that_are_there_are_told_in_groups() -> None:
    bad = [{"metadata": {"name": name}, "spec": pod(hostIPC=True)} for name in ("z", "b")]
    good = {"metadata": {"name": "a"}, "spec": pod()}
    assert list(existing_violations(Standard("baseline"), "team", [*bad, good])) == [
        'existing pods in namespace "team" violate the new PodSecurity enforce level "baseline:latest"',
        "b (and 1 other pod): host namespaces",
    ]
    assert list(existing_violations(Standard("baseline"), "team", [good])) == []


def test_templates() -> None:
    template = {"spec": {"containers": []}}
    cron = {"spec": {"jobTemplate": {"spec": {"template": template}}}}
    assert template_of("batch", "cronjobs", cron) == template
    assert template_of("", "configmaps", {}) is None
