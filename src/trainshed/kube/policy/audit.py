"""Audit policies: what of which request is written down.

Source: `apiserver/pkg/audit/policy/checker.go`, `apiserver/pkg/apis/audit/validation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object
from trainshed.kube.policy.attributes import Attributes

API_VERSION = "audit.k8s.io/v1"
NONE, METADATA, REQUEST, REQUEST_RESPONSE = LEVELS = ("None", "Metadata", "Request", "RequestResponse")
RECEIVED, STARTED, COMPLETE, PANIC = STAGES = (
    "RequestReceived",
    "ResponseStarted",
    "ResponseComplete",
    "Panic",
)


class Resources(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Resources of one group; none named are all."""

    group: str = ""
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class Rule(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Which requests, and how much of them. What is empty counts for everything."""

    level: str = ""
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[Resources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool | None = None


class Policy(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The rules of a policy, of which the first that fits a request counts."""

    rules: tuple[Rule, ...] = ()
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool = False
    api_version: str = ""
    kind: str = ""
    metadata: dict[str, Any] = {}


class Wanted(msgspec.Struct, frozen=True):
    """What is written of one request."""

    level: str
    omit_stages: frozenset[str] = frozenset()
    omit_managed_fields: bool = False

    def has(self, stage: str) -> bool:
        """Return whether an event is written at this stage."""
        return self.level != NONE and stage not in self.omit_stages

    @property
    def request(self) -> bool:
        """Whether the object of the request is written."""
        return self.level in (REQUEST, REQUEST_RESPONSE)

    @property
    def response(self) -> bool:
        """Whether the object of the answer is written."""
        return self.level == REQUEST_RESPONSE


def read(document: object) -> Policy:
    """Return the policy in a decoded file. ValueError, with one sentence, when it is none."""
    if not isinstance(document, dict):
        raise ValueError("it holds no object")
    if document.get("apiVersion") != API_VERSION or document.get("kind") != "Policy":
        found = f"{document.get('apiVersion', '')} {document.get('kind', '')}".strip() or "nothing"
        raise ValueError(f"it is no {API_VERSION} Policy, but {found}")
    try:
        policy = msgspec.convert(document, Policy)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    found_causes = list(_causes(policy))
    if found_causes:
        raise ValueError("; ".join(f"{one.field}: {one.message}" for one in found_causes))
    return policy


def _causes(policy: Policy) -> Iterator[Cause]:
    if not policy.rules:
        yield causes.required("rules", "loaded illegal policy with 0 rules")
    yield from _stages(policy.omit_stages, "omitStages")
    for index, rule in enumerate(policy.rules):
        at = f"rules[{index}]"
        if rule.level not in LEVELS:
            yield causes.unsupported(f"{at}.level", rule.level, LEVELS)
        yield from _stages(rule.omit_stages, f"{at}.omitStages")
        if rule.non_resource_urls and (rule.resources or rule.namespaces):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            yield causes.invalid(f"{at}.nonResourceURLs", list(rule.non_resource_urls), text)
        for number, url in enumerate(rule.non_resource_urls):
            where = f"{at}.nonResourceURLs[{number}]"
            if url != "*" and not url.startswith("/"):
                text = "non-resource URL rules must begin with a '/' character"
                yield causes.invalid(where, url, text)
            elif "*" in url[:-1]:
                text = "non-resource URL wildcards '*' must be the final character of the rule"
                yield causes.invalid(where, url, text)
        for number, one in enumerate(rule.resources):
            if one.resource_names and not one.resources:
                text = "using resourceNames requires at least one resource"
                yield causes.invalid(
                    f"{at}.resources[{number}].resourceNames", list(one.resource_names), text
                )


def _stages(stages: Sequence[str], at: str) -> Iterator[Cause]:
    for index, stage in enumerate(stages):
        if stage not in STAGES:
            yield causes.unsupported(f"{at}[{index}]", stage, STAGES)


def wanted(policy: Policy, asked: Attributes) -> Wanted:
    """Return what a policy has written of a request."""
    for rule in policy.rules:
        if _fits(rule, asked):
            omitted = rule.omit_managed_fields
            return Wanted(
                rule.level,
                frozenset(policy.omit_stages) | frozenset(rule.omit_stages),
                policy.omit_managed_fields if omitted is None else omitted,
            )
    return Wanted(NONE)


def _fits(rule: Rule, asked: Attributes) -> bool:
    if rule.users and asked.user not in rule.users:
        return False
    if rule.user_groups and not set(rule.user_groups) & set(asked.groups):
        return False
    if rule.verbs and asked.verb not in rule.verbs:
        return False
    if rule.namespaces or rule.resources:
        return _fits_resource(rule, asked)
    if rule.non_resource_urls:
        return bool(asked.path) and any(_fits_path(url, asked.path) for url in rule.non_resource_urls)
    return True


def _fits_resource(rule: Rule, asked: Attributes) -> bool:
    if asked.path or (rule.namespaces and asked.namespace not in rule.namespaces):
        return False
    if not rule.resources:
        return True
    whole = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    names = {"*", whole, f"{asked.resource}/*"} | ({f"*/{asked.subresource}"} if asked.subresource else set())
    for one in rule.resources:
        if one.group != asked.group:
            continue
        if not one.resources:
            return True
        if names & set(one.resources) and (not one.resource_names or asked.name in one.resource_names):
            return True
    return False


def _fits_path(url: str, path: str) -> bool:
    return url == "*" or url == path or (url.endswith("*") and path.startswith(url[:-1]))


def without_managed_fields(obj: Any) -> Any:
    """Return an object, or a list of them, without managedFields."""
    if not isinstance(obj, dict):
        return obj
    out: Object = dict(obj)
    metadata = out.get("metadata")
    if isinstance(metadata, dict) and "managedFields" in metadata:
        out["metadata"] = {key: value for key, value in metadata.items() if key != "managedFields"}
    if isinstance(out.get("items"), list):
        out["items"] = [without_managed_fields(item) for item in out["items"]]
    return out
