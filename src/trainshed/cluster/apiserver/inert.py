"""Kinds that look as if they would do something, and are only stored here: whoever makes one is told."""

from __future__ import annotations

from trainshed.kube.meta.resources import Resource

INERT = frozenset({
    ("", "limitranges"),
    ("", "replicationcontrollers"),
    ("", "resourcequotas"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apps", "daemonsets"),
    ("apps", "statefulsets"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("batch", "cronjobs"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("networking.k8s.io", "ingresses"),
    ("networking.k8s.io", "networkpolicies"),
    ("policy", "poddisruptionbudgets"),
})  # fmt: skip
"""(group, plural). The reference page of the API lists these and those from which nobody expects anything."""


def warning(resource: Resource) -> str:
    """Return the text for whoever creates such an object; empty for kinds that have behaviour."""
    if (resource.group, resource.plural) not in INERT:
        return ""
    return f"this cluster stores {resource.plural} and does nothing with them"
