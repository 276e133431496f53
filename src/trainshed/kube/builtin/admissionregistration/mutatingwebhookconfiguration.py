"""MutatingWebhookConfigurations."""

from __future__ import annotations

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.builtin.parts.webhooks import WEBHOOKS, webhook_causes, webhook_defaults
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import MUTATINGWEBHOOKS


def _defaults(obj: Object) -> None:
    webhook_defaults(obj)
    for hook in obj.get("webhooks") or ():
        setdefault(hook, "reinvocationPolicy", "Never")


KIND = Builtin(
    info=row(
        MUTATINGWEBHOOKS,
        categories=("api-extensions",),
        unconditional_update=False,
        generation=True,
    ),
    does="called before an object is validated; JSON patches, reinvocation, match conditions, dry run",
    check=webhook_causes,
    defaults=_defaults,
    columns=WEBHOOKS,
)
