"""ValidatingWebhookConfigurations."""

from __future__ import annotations

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.webhooks import WEBHOOKS, webhook_causes, webhook_defaults
from trainshed.kube.meta.resources import VALIDATINGWEBHOOKS

KIND = Builtin(
    info=row(
        VALIDATINGWEBHOOKS,
        categories=("api-extensions",),
        unconditional_update=False,
        generation=True,
    ),
    does="called before an object is stored or deleted; match conditions, dry run",
    check=webhook_causes,
    defaults=webhook_defaults,
    columns=WEBHOOKS,
)
