"""CustomResourceDefinitions: their defaults, and what makes one valid.

Source of rules and texts: `apiextensions-apiserver/pkg/apis/apiextensions/validation` and
`pkg/apiserver/schema/validation.go`. The rules of versions are in `crd_versions`, of a schema in `crd_schema`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.meta import causes, names
from trainshed.kube.meta.causes import one_of
from trainshed.kube.meta.equality import repeated
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, metadata_of, section, spec_of, status_of
from trainshed.kube.schema.crd_versions import version_causes
from trainshed.kube.schema.webhookclient import client_causes

_SCOPES = ("Cluster", "Namespaced")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_APPROVAL = "api-approved.kubernetes.io"


def crd_defaults(obj: Object) -> None:
    """Fill in names and conversion of a CRD, in place."""
    spec = obj.setdefault("spec", {})
    kinds = spec.setdefault("names", {})
    kind = kinds.get("kind") or ""
    if kind:
        kinds["singular"] = kinds.get("singular") or kind.lower()
        kinds["listKind"] = kinds.get("listKind") or f"{kind}List"
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = section(conversion, "webhook", "clientConfig").get("service")
    if service is not None:
        service["port"] = 443 if service.get("port") is None else service["port"]
    # Typed clients require both flags of a version.
    for version in spec.get("versions") or ():
        version.setdefault("served", False)
        version.setdefault("storage", False)
        _drop_null_defaults(section(version, "schema").get("openAPIV3Schema"))


def _drop_null_defaults(schema: Any) -> None:
    """Take `default: null` and `example: null` away, in place: Kubernetes takes them for absent."""
    if not isinstance(schema, dict):
        return
    for field in ("default", "example"):
        if field in schema and schema[field] is None:
            del schema[field]
    for children in (schema.get("properties"), schema.get("definitions")):
        for child in children.values() if isinstance(children, dict) else ():
            _drop_null_defaults(child)
    for field in ("items", "additionalProperties", "not"):
        _drop_null_defaults(schema.get(field))
    for field in ("allOf", "anyOf", "oneOf"):
        for child in schema.get(field) or ():
            _drop_null_defaults(child)


def _has_default(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    inner = [schema.get("items"), schema.get("additionalProperties"), *section(schema, "properties").values()]
    return "default" in schema or any(map(_has_default, inner))


def validate_crd(obj: Object, old: Object | None) -> list[Cause]:
    """Return what is wrong with a defaulted CRD; its metadata is `metadata.validate_metadata`'s."""
    spec = spec_of(obj)
    kinds, group = section(spec, "names"), spec.get("group") or ""
    name = metadata_of(obj).get("name") or ""
    out: list[Cause] = []
    if name != f"{kinds.get('plural')}.{group}":
        out.append(causes.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    out += _group(obj, group)
    out += _names(kinds)
    if not spec.get("scope"):
        out.append(causes.required("spec.scope"))
    out += one_of(spec, "spec", "scope", _SCOPES)
    if spec.get("preserveUnknownFields"):
        text = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        out.append(causes.invalid("spec.preserveUnknownFields", True, text))
        if any(
            _has_default(section(version, "schema").get("openAPIV3Schema"))
            for version in spec.get("versions") or ()
        ):
            text = "must be false in order to use defaults in the schema"
            out.append(causes.invalid("spec.preserveUnknownFields", True, text))
    conversion = section(spec, "conversion")
    if spec.get("preserveUnknownFields") and conversion.get("strategy") != "None":
        text = "must be None if spec.preserveUnknownFields is true"
        out.append(causes.invalid("spec.conversion.strategy", conversion.get("strategy") or "", text))
    if not conversion.get("strategy"):
        out.append(causes.required("spec.conversion.strategy"))
    out += one_of(conversion, "spec.conversion", "strategy", ("None", "Webhook"))
    out += _conversion(conversion, "spec.conversion")
    out += version_causes(spec.get("versions"))
    if old is not None:
        out += _changes(obj, old)
    return out


def stored_versions_causes(obj: Object) -> Iterator[Cause]:
    """Yield what is wrong with the `storedVersions` that somebody writes who has rewritten all objects."""
    stored = status_of(obj).get("storedVersions") or []
    if not stored:
        yield causes.invalid("status.storedVersions", stored, "must have at least one stored version")
        return
    for version in spec_of(obj).get("versions") or ():
        if version.get("storage") and version["name"] not in stored:
            text = f"must have the storage version {version['name']}"
            yield causes.invalid("status.storedVersions", stored, text)


def _conversion(conversion: Object, path: str) -> Iterator[Cause]:
    client = section(conversion, "webhook").get("clientConfig")
    accepted = section(conversion, "webhook").get("conversionReviewVersions") or []
    if conversion.get("strategy") != "Webhook":
        for key, value in (("webhookClientConfig", client), ("conversionReviewVersions", accepted or None)):
            if value is not None:
                yield causes.forbidden(
                    f"{path}.{key}", "should not be set when strategy is not set to Webhook"
                )
        return
    if client is None:
        yield causes.required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
    else:
        yield from client_causes(client, f"{path}.webhookClientConfig")
    at = f"{path}.conversionReviewVersions"
    if not accepted:
        yield causes.required(at)
        return
    again = repeated(accepted)
    for index, version in enumerate(accepted):
        if index in again:
            yield causes.invalid(f"{at}[{index}]", version, "duplicate version")
            continue
        for why in names.dns_1035_label(version):
            yield causes.invalid(f"{at}[{index}]", version, why)
    if not set(accepted) & set(_REVIEW_VERSIONS):
        yield causes.invalid(at, accepted, f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")


def _group(obj: Object, group: str) -> Iterator[Cause]:
    if not group:
        yield causes.required("spec.group")
        return
    if faults := names.dns_subdomain(group):
        yield causes.invalid("spec.group", group, ",".join(faults))
    elif "." not in group:
        yield causes.invalid("spec.group", group, "should be a domain with at least one dot")
    protected = any(group == domain or group.endswith(f".{domain}") for domain in ("k8s.io", "kubernetes.io"))
    if protected and not section(obj, "metadata", "annotations").get(_APPROVAL):
        text = (
            f'protected groups must have approval annotation "{_APPROVAL}", '
            "see https://github.com/kubernetes/enhancements/pull/1111"
        )
        yield causes.required(f"metadata.annotations[{_APPROVAL}]", text)


def _names(kinds: Object) -> Iterator[Cause]:
    path = "spec.names"
    for key in ("plural", "singular"):
        value = kinds.get(key) or ""
        if not value:
            yield causes.required(f"{path}.{key}")
        else:
            for why in names.dns_1035_label(value):
                yield causes.invalid(f"{path}.{key}", value, why)
    for key in ("kind", "listKind"):
        value = kinds.get(key) or ""
        if not value:
            yield causes.required(f"{path}.{key}")
        else:
            for why in names.dns_1035_label(value.lower()):
                text = f"may have mixed case, but should otherwise match: {why}"
                yield causes.invalid(f"{path}.{key}", value, text)
    if kinds.get("kind") and kinds.get("kind") == kinds.get("listKind"):
        text = "kind and listKind may not be the same"
        yield causes.invalid(f"{path}.listKind", kinds["listKind"], text)
    for key in ("shortNames", "categories"):
        for index, value in enumerate(kinds.get(key) or ()):
            for why in names.dns_1035_label(value):
                yield causes.invalid(f"{path}.{key}[{index}]", value, why)


def _changes(obj: Object, old: Object) -> Iterator[Cause]:
    spec, before = spec_of(obj), spec_of(old)
    kinds, held = section(spec, "names"), section(before, "names")
    for path, new, was in (
        ("spec.group", spec.get("group"), before.get("group")),
        ("spec.scope", spec.get("scope"), before.get("scope")),
        ("spec.names.plural", kinds.get("plural"), held.get("plural")),
        ("spec.names.kind", kinds.get("kind"), held.get("kind")),
    ):
        if new != was:
            yield causes.invalid(path, new, "field is immutable")
    known = {version.get("name") for version in spec.get("versions") or ()}
    for index, stored in enumerate(status_of(obj).get("storedVersions") or ()):
        if stored not in known:
            text = "must appear in spec.versions"
            yield causes.invalid(f"status.storedVersions[{index}]", stored, text)
