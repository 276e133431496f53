"""Admission webhooks: which of them a request concerns, what they are asked, and what their answer means. Pure.

Source: "Dynamic Admission Control" in the Kubernetes documentation; admission.k8s.io/v1 AdmissionReview.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from trainshed.kube.meta.errors import ApiError, bad_request, internal
from trainshed.kube.meta.objects import Object, labels_of, objects, section
from trainshed.kube.meta.resources import Resource
from trainshed.kube.meta.selectors import LabelSelector
from trainshed.kube.policy.webhookanswers import VERSIONS

if TYPE_CHECKING:
    from trainshed.kube.cel.library.authorizer import Asked

_EXEMPT = "admissionregistration.k8s.io"
"""Group whose objects no webhook is asked about: one that refuses all could never be taken away."""


def nobody(user: Object, spec: Object) -> tuple[bool, str]:
    """Return that nobody may do anything: what stands in where there is no authorizer."""
    return False, ""


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """A request as admission sees it. `operation` is CREATE, UPDATE, DELETE or CONNECT.

    `kind` is group, version and kind of `object` where a subresource has a kind of its own. `others` are the other
    versions in which the resource is served. `seen_as` is the one of those in which a rule wants to see it.
    """

    resource: Resource
    subresource: str
    operation: str
    name: str
    namespace: str
    object: Object | None
    old: Object | None
    user: Object
    """`userInfo`."""
    options: Object | None
    dry_run: bool
    namespace_labels: Mapping[str, str]
    asks: Asked = nobody
    """The authorizer, for expressions that ask it."""
    kind: tuple[str, str, str] | None = None
    others: tuple[str, ...] = ()
    seen_as: str = ""


class Hook(msgspec.Struct, frozen=True):
    """One webhook of a configuration."""

    name: str
    configuration: str
    spec: Object

    @property
    def ignores_failures(self) -> bool:
        """Whether a call that fails lets the request pass."""
        return self.spec.get("failurePolicy") == "Ignore"

    @property
    def seconds(self) -> int:
        """How long it may take."""
        return int(self.spec.get("timeoutSeconds") or 10)


def hooks_of(configurations: Sequence[Object]) -> list[Hook]:
    """Return the webhooks of configurations in the order in which they are called: by name of the configuration."""
    ordered = sorted(configurations, key=lambda found: str(found["metadata"]["name"]))
    return [
        Hook(str(hook.get("name", "")), str(found["metadata"]["name"]), hook)
        for found in ordered
        for hook in objects(found, "webhooks")
    ]


def concerns(hook: Hook, asked: Admitted) -> str | None:
    """Return the version in which rules and selectors choose the request; match conditions are another matter.

    None: they do not.
    """
    if asked.resource.group == _EXEMPT:
        return None
    found = matching(objects(hook.spec, "rules"), asked, hook.spec.get("matchPolicy"))
    return found if found is not None and selected(hook.spec, asked) else None


def matching(rules: Sequence[Object], asked: Admitted, policy: object = "Equivalent") -> str | None:
    """Return the version by which one of the rules names a request: its own first, then the others that are served."""
    own = asked.resource.version
    versions = (own,) if policy == "Exact" else (own, *asked.others)
    return next((v for v in versions if any(_rule_matches(rule, asked, v) for rule in rules)), None)


def _rule_matches(rule: Object, asked: Admitted, version: str) -> bool:
    """Return whether a rule names the operation and the resource of a request in a version."""

    def names(field: str, value: str) -> bool:
        return bool({"*", value} & set(rule.get(field) or ()))

    named = names("apiGroups", asked.resource.group) and names("apiVersions", version)
    if not (named and names("operations", asked.operation)):
        return False
    if rule.get("scope") not in (None, "", "*", "Namespaced" if asked.resource.namespaced else "Cluster"):
        return False
    return any(_resource_matches(wanted, asked) for wanted in rule.get("resources") or ())


def _resource_matches(wanted: str, asked: Admitted) -> bool:
    plural, _, sub = wanted.partition("/")
    if plural not in ("*", asked.resource.plural):
        return False
    return sub == "*" or sub == asked.subresource


def selected(spec: Object, asked: Admitted) -> bool:
    """Return whether the namespace selector and the object selector choose the request."""
    chosen = LabelSelector.from_object(section(spec, "namespaceSelector"))
    if asked.resource.plural == "namespaces" and not asked.resource.group:
        if not chosen.matches(labels_of(asked.object or asked.old or {})):
            return False
    elif asked.namespace and not chosen.matches(asked.namespace_labels):
        return False
    wanted = LabelSelector.from_object(section(spec, "objectSelector"))
    return any(wanted.matches(labels_of(obj)) for obj in (asked.object, asked.old) if obj is not None)


def review_of(hook: Hook, asked: Admitted, uid: str) -> Object:
    """Return the AdmissionReview that a webhook is asked with, in the first of its versions that is known."""
    version = version_of(hook)
    request = request_of(asked, uid)
    return {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": request}


def version_of(hook: Hook) -> str:
    """Return the version of the AdmissionReview that a webhook wants."""
    wanted = hook.spec.get("admissionReviewVersions") or ()
    return next((version for version in wanted if version in VERSIONS), "v1")


def request_of(asked: Admitted, uid: str) -> Object:
    """Return the `request` of an AdmissionReview."""
    resource, version = asked.resource, asked.seen_as or asked.resource.version

    def kind(version: str) -> Object:
        group, own, name = asked.kind or (resource.group, version, resource.kind)
        return {"group": group, "version": own, "kind": name}

    def path(version: str) -> Object:
        return {"group": resource.group, "version": version, "resource": resource.plural}

    out: Object = {
        "uid": uid,
        "kind": kind(version),
        "resource": path(version),
        "requestKind": kind(resource.version),
        "requestResource": path(resource.version),
        "operation": asked.operation,
        "userInfo": asked.user,
        "object": asked.object,
        "oldObject": asked.old,
        "dryRun": asked.dry_run,
        "options": asked.options,
    }
    if asked.name:
        out["name"] = asked.name
    if asked.subresource:
        out["subResource"] = out["requestSubResource"] = asked.subresource
    if asked.namespace:
        out["namespace"] = asked.namespace
    return out


def unmatched(hook: Hook, asked: Admitted) -> bool:
    """Return whether a match condition leaves the request out.

    Raises:
        ValueError: a condition cannot be evaluated, and none says no.
    """
    conditions = objects(hook.spec, "matchConditions")
    return bool(conditions) and not conditions_hold(conditions, variables_of(asked))


def variables_of(asked: Admitted) -> dict[str, Any]:
    """Return what every expression of admission sees of a request."""
    from trainshed.kube.cel.library.authorizer import (
        Authorizer,  # the language is loaded with the first expression
    )

    resource = asked.resource
    about = {
        "group": resource.group,
        "version": resource.version,
        "resource": resource.plural,
        "subresource": asked.subresource,
        "namespace": asked.namespace,
        "name": asked.name,
    }
    return {
        "object": asked.object,
        "oldObject": asked.old,
        "request": request_of(asked, ""),
        "namespaceObject": None,
        "authorizer": Authorizer(asked.asks, asked.user, about),
    }


def conditions_hold(conditions: Sequence[Object], variables: dict[str, Any]) -> bool:
    """Return whether all match conditions hold. Raises ValueError: one cannot be evaluated, and none says no."""
    from trainshed.kube.cel.program import run

    failed = []
    for condition in conditions:
        expression = str(condition.get("expression", ""))
        try:
            if run(expression, variables) is not True:
                return False
        except ValueError as error:
            failed.append(f"expression '{expression}' resulted in error: {error}")
    if failed:
        raise ValueError(failed[0] if len(failed) == 1 else f"[{', '.join(failed)}]")
    return True


def refuses_dry_run(hook: Hook) -> ApiError:
    """Return the error of a dry run that meets a webhook with side effects."""
    return bad_request(f'admission webhook "{hook.name}" does not support dry run')


def is_safe(hook: Hook) -> bool:
    """Return whether a dry run may ask the webhook."""
    return hook.spec.get("sideEffects") in ("None", "NoneOnDryRun")


def failed(hook: Hook, why: str) -> ApiError:
    """Return the error of a webhook that cannot be asked, or gives no answer."""
    return internal(f'failed calling webhook "{hook.name}": {why}')
