"""What both webhook configurations share."""

from __future__ import annotations

from typing import Any

from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta.objects import Object, name_of, section


def webhook_defaults(obj: Object) -> None:
    """Fill in the webhooks of a configuration."""
    for hook in obj.get("webhooks") or ():
        for key, value in (("failurePolicy", "Fail"), ("matchPolicy", "Equivalent"), ("timeoutSeconds", 10)):
            setdefault(hook, key, value)
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        for rule in hook.get("rules") or ():
            setdefault(rule, "scope", "*")
        service = section(hook, "clientConfig").get("service")
        if service is not None:
            setdefault(service, "port", 443)


def _row(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), len(obj.get("webhooks") or ()), age(obj, now)]


WEBHOOKS = Columns(define("Name, Webhooks#, Age"), _row)
