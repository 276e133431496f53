"""Admission webhooks: which of them a request concerns, what they are asked, and what their answer means. Pure.

Source: "Dynamic Admission Control" in the Kubernetes documentation; admission.k8s.io/v1 AdmissionReview.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from trainshed.kube.meta.errors import ApiError, bad_request, internal
from trainshed.kube.meta.objects import Object, labels_of, objects, section
from trainshed.kube.meta.resources import Resource
from trainshed.kube.meta.selectors import LabelSelector
from trainshed.kube.patch.jsonpatch import json_patch

if TYPE_CHECKING:
    from trainshed.kube.cel.library.authorizer import Asked

_EXEMPT = "admissionregistration.k8s.io"
"""Group whose objects no webhook is asked about: one that refuses all could never be taken away."""


def nobody(user: Object, spec: Object) -> tuple[bool, str]:
    """Return that nobody may do anything: what stands in where there is no authorizer."""
    return False, ""


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """A request as admission sees it. `operation` is CREATE, UPDATE or DELETE."""

    resource: Resource
    subresource: str
    operation: str
    name: str
    namespace: str
    object: Object | None
    old: Object | None
    user: Object
    """`userInfo`."""
    options: Object
    dry_run: bool
    namespace_labels: Mapping[str, str]
    asks: Asked = nobody
    """The authorizer, for expressions that ask it."""


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


def concerns(hook: Hook, asked: Admitted) -> bool:
    """Return whether rules and selectors choose the request; match conditions are another matter."""
    if asked.resource.group == _EXEMPT:
        return False
    spec = hook.spec
    if not any(rule_matches(rule, asked, spec.get("matchPolicy")) for rule in objects(spec, "rules")):
        return False
    return selected(spec, asked)


def rule_matches(rule: Object, asked: Admitted, policy: object = "Equivalent") -> bool:
    """Return whether a rule names the operation and the resource of a request."""

    def names(field: str, value: str) -> bool:
        return bool({"*", value} & set(rule.get(field) or ()))

    resource = asked.resource
    versions = names("apiVersions", resource.version) or policy != "Exact"
    if not (names("operations", asked.operation) and names("apiGroups", resource.group) and versions):
        return False
    if rule.get("scope") not in (None, "", "*", "Namespaced" if asked.namespace else "Cluster"):
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


def request_of(asked: Admitted, uid: str) -> Object:
    """Return the `request` of an AdmissionReview."""
    resource = asked.resource
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    path = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    out: Object = {
        "uid": uid,
        "kind": kind,
        "resource": path,
        "requestKind": kind,
        "requestResource": path,
        "name": asked.name,
        "operation": asked.operation,
        "userInfo": asked.user,
        "object": asked.object,
        "oldObject": asked.old,
        "dryRun": asked.dry_run,
        "options": asked.options,
    }
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
        "authorizer": Authorizer(asked.asks, asked.user, about),
    }


def conditions_hold(conditions: Sequence[Object], variables: dict[str, Any]) -> bool:
    """Return whether all match conditions hold. Raises ValueError: one cannot be evaluated, and none says no."""
    from trainshed.kube.cel.program import run

    failed = ""
    for condition in conditions:
        try:
            if run(str(condition.get("expression", "")), variables) is not True:
                return False
        except ValueError as error:
            failed = f"match condition {condition.get('name')}: {error}"
    if failed:
        raise ValueError(failed)
    return True


def refuses_dry_run(hook: Hook) -> ApiError:
    """Return the error of a dry run that meets a webhook with side effects."""
    return bad_request(f'admission webhook "{hook.name}" does not support dry run')


def is_safe(hook: Hook) -> bool:
    """Return whether a dry run may ask the webhook."""
    return hook.spec.get("sideEffects") in ("None", "NoneOnDryRun")


def unreachable(hook: Hook, why: str) -> ApiError:
    """Return the error of a call that failed."""
    return internal(f'failed calling webhook "{hook.name}": {why}')


class Verdict(msgspec.Struct, frozen=True):
    """What a webhook answered."""

    warnings: tuple[str, ...]
    refusal: ApiError | None
    patch: Any = None
    annotations: Mapping[str, str] = {}


def verdict(hook: Hook, body: bytes, uid: str) -> Verdict:
    """Return what the answer of a webhook says.

    Raises:
        ValueError: it is no answer to this question.
    """
    try:
        review = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise ValueError(f"could not decode the response: {error}") from error
    response = section(review, "response") if isinstance(review, dict) else {}
    if not response:
        raise ValueError("webhook response was absent")
    if response.get("uid") != uid:
        raise ValueError(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    warnings = tuple(str(text) for text in response.get("warnings") or ())
    if response.get("allowed") is not True:
        return Verdict(warnings, _refusal(hook, section(response, "status")))
    said = section(response, "auditAnnotations")
    annotations = {f"{hook.name}/{key}": str(value) for key, value in said.items()}
    encoded = response.get("patch")
    if not encoded:
        return Verdict(warnings, None, annotations=annotations)
    if response.get("patchType") != "JSONPatch":
        raise ValueError(
            f"webhook returned response.patchType={response.get('patchType')!r}, which is unsupported"
        )
    try:
        patch = msgspec.json.decode(base64.b64decode(encoded, validate=True))
        return Verdict(warnings, None, patch, annotations)
    except (binascii.Error, msgspec.DecodeError) as error:
        raise ValueError(f"the patch cannot be decoded: {error}") from error


def patched(obj: Object, patch: Any) -> Object:
    """Return an object with the patch of a webhook. Raises `ApiError` 422 where it does not fit."""
    out = json_patch(obj, patch)
    if not isinstance(out, dict):
        raise internal("the patch of a webhook does not leave an object")
    return out


def _refusal(hook: Hook, status: Object) -> ApiError:
    why = f'admission webhook "{hook.name}" denied the request'
    message = status.get("message") or status.get("reason")
    text = f"{why}: {message}" if message else f"{why} without explanation"
    code = status.get("code")
    code = code if isinstance(code, int) and 400 <= code <= 599 else 400
    error = ApiError(code, str(status.get("reason") or ""), text)
    if section(status, "details"):
        error.details = {**section(status, "details"), **error.details}
    return error
