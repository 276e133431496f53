"""Pod Security standards: which level a namespace asks for, and what a pod does that the level forbids. Pure.

Source: "Pod Security Standards" and "Pod Security Admission" in the Kubernetes documentation. The rules are those of
Kubernetes 1.33, whatever version a namespace names; reasons and details are worded as by the API server, since people
search for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, labels_of, section, spec_of
from trainshed.kube.policy.securityrules import BASELINE, RESTRICTED, Violation

PREFIX = "pod-security.kubernetes.io/"
MODES = ("enforce", "audit", "warn")
LEVELS = ("privileged", "baseline", "restricted")
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)")


class Standard(msgspec.Struct, frozen=True):
    """A level and the version that its namespace names, e.g. `restricted:latest`."""

    level: str
    version: str = "latest"

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"


def standard(namespace: Mapping[str, object], mode: str) -> Standard:
    """Return what a namespace asks for in a mode; what no label says, or says wrongly, is `privileged`."""
    labels = labels_of(namespace)
    level = labels.get(PREFIX + mode, "privileged")
    version = labels.get(f"{PREFIX}{mode}-version", "latest")
    return Standard(level if level in LEVELS else "privileged", version)


def label_causes(namespace: Mapping[str, object]) -> Iterator[Cause]:
    """Yield what is wrong with the Pod Security labels of a namespace."""
    labels = labels_of(namespace)
    for mode in MODES:
        level, version = labels.get(PREFIX + mode), labels.get(f"{PREFIX}{mode}-version")
        if level is not None and level not in LEVELS:
            text = f"must be one of {', '.join(LEVELS)}"
            yield causes.invalid(f"metadata.labels[{PREFIX}{mode}]", level, text)
        if version is not None and version != "latest" and not _VERSION.fullmatch(version):
            text = 'must be "latest" or "v1.x"'
            yield causes.invalid(f"metadata.labels[{PREFIX}{mode}-version]", version, text)


def violations(wanted: Standard, metadata: Object, spec: Object) -> list[Violation]:
    """Return what a pod of this metadata and spec does that the level forbids, in the order of the API server."""
    if wanted.level == "privileged":
        return []
    rules = list(BASELINE.values())
    if wanted.level == "restricted":
        replaced = {old for rule in RESTRICTED.values() for old in rule.replaces}
        rules = [rule for name, rule in BASELINE.items() if name not in replaced]
        rules += RESTRICTED.values()
    found = (rule.check(metadata, spec) for rule in rules)
    return [violation for violation in found if violation is not None]


def described(found: list[Violation]) -> str:
    """Return violations in a line: `privileged (container "c" must not …), host namespaces (hostPID=true)`."""
    return ", ".join(f"{one.reason} ({one.detail})" if one.detail else one.reason for one in found)


_TEMPLATES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): ("spec", "template"),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
}


def template_of(group: str, plural: str, obj: Object) -> Object | None:
    """Return the pod template of an object whose pods come later, None for kinds without one."""
    path = _TEMPLATES.get((group, plural))
    return section(obj, *path) if path is not None else None


def existing_violations(
    wanted: Standard, namespace: str, pods: list[Object], most: int = 3_000
) -> Iterator[str]:
    """Yield warnings for a namespace that now enforces a level: which of its pods, of at most `most`, violate it.

    Pods that violate it in the same way share a line.
    """
    same: dict[str, list[str]] = {}
    for pod in pods[:most]:
        found = violations(wanted, section(pod, "metadata"), spec_of(pod))
        if found:
            same.setdefault(", ".join(one.reason for one in found), []).append(pod["metadata"]["name"])
    if not same:
        return
    yield f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{wanted}"'
    for reasons, names in sorted(same.items(), key=lambda item: min(item[1])):
        first, more = min(names), len(names) - 1
        others = f" (and {more} other pod{'s' if more > 1 else ''})" if more else ""
        yield f"{first}{others}: {reasons}"
