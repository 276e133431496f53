"""MutatingWebhookConfigurations."""

from __future__ import annotations

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.builtin.parts.webhooks import WEBHOOKS, webhook_defaults
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import Resource


def _defaults(obj: Object) -> None:
    webhook_defaults(obj)
    for hook in obj.get("webhooks") or ():
        setdefault(hook, "reinvocationPolicy", "Never")


KIND = Builtin(
    info=row(
        Resource(
            "admissionregistration.k8s.io",
            "v1",
            "mutatingwebhookconfigurations",
            "MutatingWebhookConfiguration",
            namespaced=False,
        ),
        categories=("api-extensions",),
        unconditional_update=False,
        generation=True,
    ),
    inert=True,
    defaults=_defaults,
    columns=WEBHOOKS,
)
