"""What both webhook configurations share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.builtin.parts.webhookrules import condition_list_causes, rule_causes
from trainshed.kube.meta import causes, golang, names
from trainshed.kube.meta.equality import repeated
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, objects, section
from trainshed.kube.schema.metadata import selector_causes
from trainshed.kube.schema.webhookclient import client_causes

if TYPE_CHECKING:
    from trainshed.kube.cel.types import Type


def webhook_defaults(obj: Object) -> None:
    """Fill in the webhooks of a configuration."""
    for hook in obj.get("webhooks") or ():
        for key, value in (("failurePolicy", "Fail"), ("matchPolicy", "Equivalent")):
            hook.setdefault(key, value)
        if hook.get("timeoutSeconds") is None:
            hook["timeoutSeconds"] = 10
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        for rule in hook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = section(hook, "clientConfig").get("service")
        if service is not None:
            service.setdefault("port", 443)


def match_defaults(match: Object | None) -> None:
    """Fill in what a policy or its binding says of the requests that it is for."""
    if match is None:
        return
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(field) or ():
            rule.setdefault("scope", "*")


def match_causes(match: Object, at: str) -> Iterator[Cause]:
    """Yield what is wrong with the selectors of a webhook or a policy: a wrong one would fail every request."""
    for field in ("namespaceSelector", "objectSelector"):
        yield from selector_causes(match.get(field), f"{at}.{field}")


def match_resources_causes(match: Object, at: str) -> Iterator[Cause]:
    """Yield what is wrong with what a policy or its binding says of the requests that it is for."""
    yield from choice_causes(match, at, "matchPolicy", ("Equivalent", "Exact"))
    yield from match_causes(match, at)
    for field in ("resourceRules", "excludeResourceRules"):
        yield from rule_causes(objects(match, field), f"{at}.{field}")


def choice_causes(owner: Object, at: str, field: str, supported: tuple[str, ...]) -> Iterator[Cause]:
    """Yield a cause where a field that is a pointer in Go has none of the supported values; empty is a value."""
    if owner.get(field) is not None and owner[field] not in supported:
        yield causes.unsupported(f"{at}.{field}", owner[field], supported)


def webhook_causes(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a configuration that has its defaults."""
    seen: set[str] = set()
    for index, hook in enumerate(objects(obj, "webhooks")):
        at, name = f"webhooks[{index}]", str(hook.get("name") or "")
        yield from _qualified(name, f"{at}.name")
        yield from rule_causes(objects(hook, "rules"), f"{at}.rules")
        yield from choice_causes(hook, at, "failurePolicy", ("Fail", "Ignore"))
        yield from choice_causes(hook, at, "matchPolicy", ("Equivalent", "Exact"))
        yield from choice_causes(hook, at, "reinvocationPolicy", ("IfNeeded", "Never"))
        yield from _side_effects(hook, at)
        seconds = hook.get("timeoutSeconds")
        if seconds is not None and not 1 <= seconds <= 30:
            yield causes.invalid(
                f"{at}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds"
            )
        yield from match_causes(hook, at)
        yield from client_causes(section(hook, "clientConfig"), f"{at}.clientConfig")
        if hook.get("matchConditions"):
            yield from condition_list_causes(hook, f"{at}.matchConditions", _conditions_see())
        yield from _review_versions(list(hook.get("admissionReviewVersions") or ()), at)
        if name in seen:
            yield causes.duplicate(f"{at}.name", name)
        seen.add(name)


def _qualified(name: str, at: str) -> Iterator[Cause]:
    if not name:
        yield causes.required(at)
    elif why := names.dns_subdomain(name):
        yield causes.invalid(at, name, ",".join(why))
    elif len(name.split(".")) < 3:
        yield causes.invalid(at, name, "should be a domain with at least three segments separated by dots")


def _conditions_see() -> Mapping[str, Type]:
    from trainshed.kube.cel.admission import CONDITION  # the language is loaded with the first expression

    return CONDITION


def _review_versions(versions: list[str], at: str) -> Iterator[Cause]:
    at = f"{at}.admissionReviewVersions"
    if not versions:
        yield causes.required(at, "must specify one of v1, v1beta1")
        return
    again = repeated(versions)
    for number, version in enumerate(versions):
        if number in again:
            yield causes.invalid(f"{at}[{number}]", version, "duplicate version")
        for why in names.dns_1035_label(version):
            yield causes.invalid(f"{at}[{number}]", version, why)
    if not {"v1", "v1beta1"} & set(versions):
        why = "must include at least one of v1, v1beta1"
        yield causes.invalid_shown(at, golang.text_list(versions), why)


def _side_effects(hook: Object, at: str) -> Iterator[Cause]:
    if hook.get("sideEffects") is None:
        yield causes.required(f"{at}.sideEffects", "must specify one of None, NoneOnDryRun")
    elif hook["sideEffects"] not in ("None", "NoneOnDryRun"):
        yield causes.unsupported(f"{at}.sideEffects", hook["sideEffects"], ("None", "NoneOnDryRun"))


def _row(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), len(obj.get("webhooks") or ()), age(obj, now)]


WEBHOOKS = Columns(define("Name, Webhooks#, Age"), _row)
