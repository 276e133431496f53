"""ValidatingWebhookConfigurations."""

from __future__ import annotations

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.webhooks import WEBHOOKS, webhook_defaults
from trainshed.kube.meta.resources import Resource

KIND = Builtin(
    info=row(
        Resource(
            "admissionregistration.k8s.io",
            "v1",
            "validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            namespaced=False,
        ),
        categories=("api-extensions",),
        unconditional_update=False,
        generation=True,
    ),
    inert=True,
    defaults=webhook_defaults,
    columns=WEBHOOKS,
)
