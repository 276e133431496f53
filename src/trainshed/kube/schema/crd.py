"""CustomResourceDefinitions: their defaults, and what makes one valid.

Source of rules and texts: `apiextensions-apiserver/pkg/apis/apiextensions/validation` and
`pkg/apiserver/schema/validation.go`. The rules of a schema are in `kube.schema.crd_schema`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from trainshed.kube.meta import causes, golang, jsonpath, names
from trainshed.kube.meta.causes import one_of
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, metadata_of, section, spec_of, status_of
from trainshed.kube.schema.soundness import unsound
from trainshed.kube.schema.webhookclient import client_causes

_SCOPES = ("Cluster", "Namespaced")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MAX_SELECTABLE = 8
_REVIEW_VERSIONS = ("v1", "v1beta1")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_SIMPLE_PATH = "must be a simple json path starting with ."
_APPROVAL = "api-approved.kubernetes.io"


def crd_defaults(obj: Object) -> None:
    """Fill in names and conversion of a CRD, in place."""
    spec = obj.setdefault("spec", {})
    kinds = spec.setdefault("names", {})
    kind = kinds.get("kind") or ""
    if kind:
        kinds["singular"] = kinds.get("singular") or kind.lower()
        kinds["listKind"] = kinds.get("listKind") or f"{kind}List"
    conversion = spec.setdefault("conversion", {})
    conversion["strategy"] = conversion.get("strategy") or "None"
    service = section(conversion, "webhook", "clientConfig").get("service")
    if service is not None:
        service["port"] = service.get("port") or 443
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
    conversion = section(spec, "conversion")
    out += one_of(conversion, "spec.conversion", "strategy", ("None", "Webhook"))
    out += _conversion(conversion, "spec.conversion")
    out += _versions(spec.get("versions") or [])
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
    elif not set(accepted) & set(_REVIEW_VERSIONS):
        yield causes.invalid(at, accepted, f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")


def _group(obj: Object, group: str) -> Iterator[Cause]:
    if not group:
        yield causes.required("spec.group")
        return
    for why in names.dns_subdomain(group):
        yield causes.invalid("spec.group", group, why)
    if "." not in group:
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


def _versions(versions: list[Object]) -> Iterator[Cause]:
    known = [version.get("name") or "" for version in versions]
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        yield causes.invalid_shown("spec.versions", _shown(versions), text)
        if not any(version.get("storage") for version in versions):
            yield causes.invalid_shown(
                "status.storedVersions", "[]string(nil)", "must have at least one stored version"
            )
    if len(set(known)) != len(known):
        yield causes.invalid_shown("spec.versions", _shown(versions), "must contain unique version names")
    schemas = [section(version, "schema").get("openAPIV3Schema") for version in versions]
    # Upstream hoists a schema that all versions share, so its messages name the place it is hoisted to.
    shared = bool(schemas) and schemas[0] is not None and all(schema == schemas[0] for schema in schemas)
    for index, version in enumerate(versions):
        at = f"spec.versions[{index}]"
        name = version.get("name") or ""
        for why in names.dns_1035_label(name):
            yield causes.invalid(f"{at}.name", name, why)
        if version.get("deprecationWarning") and not version.get("deprecated"):
            text = "can only be set for deprecated versions"
            yield causes.invalid(f"{at}.deprecationWarning", version["deprecationWarning"], text)
        schema = schemas[index]
        if schema is None:
            yield causes.required(f"{at}.schema.openAPIV3Schema", "schemas are required")
        elif not shared:
            yield from unsound(schema, f"{at}.schema.openAPIV3Schema")
        elif index == 0:
            yield from unsound(schema, "spec.validation.openAPIV3Schema")
        checks: tuple[tuple[str, Callable[[Any, str], Iterator[Cause]]], ...] = (
            ("subresources", _subresources),
            ("additionalPrinterColumns", _columns),
            ("selectableFields", partial(_selectable, schema or {})),
        )
        for field, check in checks:
            said: Any = version.get(field)
            # What all versions say alike is the definition's, and is told once.
            if any(other.get(field) != said for other in versions):
                yield from check(said or {}, f"{at}.{field}")
            elif index == 0:
                yield from check(said or {}, f"spec.{field}")


def _shown(versions: list[Object]) -> str:
    """Return versions as Go prints them where all have the same schema, subresources and columns."""
    package = "apiextensions"
    listed = ", ".join(
        f"{package}.CustomResourceDefinitionVersion{{Name:{golang.text(version.get('name'))},"
        f" Served:{golang.flag(version.get('served'))}, Storage:{golang.flag(version.get('storage'))},"
        f" Deprecated:{golang.flag(version.get('deprecated'))}, DeprecationWarning:(*string)(nil),"
        f" Schema:(*{package}.CustomResourceValidation)(nil),"
        f" Subresources:(*{package}.CustomResourceSubresources)(nil),"
        f" AdditionalPrinterColumns:[]{package}.CustomResourceColumnDefinition(nil),"
        f" SelectableFields:[]{package}.SelectableField(nil)}}"
        for version in versions
    )
    return f"[]{package}.CustomResourceDefinitionVersion{{{listed}}}"


def _subresources(subresources: Object, path: str) -> Iterator[Cause]:
    scale = subresources.get("scale")
    if scale is None:
        return
    for key, root, needed in (
        ("specReplicasPath", ".spec", True),
        ("statusReplicasPath", ".status", True),
        ("labelSelectorPath", "", False),
    ):
        value = scale.get(key) or ""
        if not value:
            if needed:
                yield causes.required(f"{path}.scale.{key}")
        elif not value.startswith("."):
            yield causes.invalid(f"{path}.scale.{key}", value, _SIMPLE_PATH)
        elif root and not value.startswith(f"{root}."):
            yield causes.invalid(f"{path}.scale.{key}", value, f"should be a json path under {root}")
        elif not root and not value.startswith((".spec.", ".status.")):
            text = "should be a json path under either .spec or .status"
            yield causes.invalid(f"{path}.scale.{key}", value, text)


def _columns(columns: Sequence[Object], path: str) -> Iterator[Cause]:
    for number, column in enumerate(columns):
        yield from _column(column, f"{path}[{number}]")


def _column(column: Object, path: str) -> Iterator[Cause]:
    if not column.get("name"):
        yield causes.required(f"{path}.name")
    if not column.get("type"):
        yield causes.required(f"{path}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
    elif column["type"] not in _COLUMN_TYPES:
        text = f"must be one of {','.join(_COLUMN_TYPES)}"
        yield causes.invalid(f"{path}.type", column["type"], text)
    if column.get("format") and column["format"] not in _COLUMN_FORMATS:
        yield causes.invalid(
            f"{path}.format", column["format"], f"must be one of {','.join(_COLUMN_FORMATS)}"
        )
    if not column.get("jsonPath"):
        yield causes.required(f"{path}.JSONPath")
    elif not column["jsonPath"].startswith("."):
        yield causes.invalid(f"{path}.JSONPath", column["jsonPath"], _SIMPLE_PATH)


def _selectable(schema: Object, fields: list[Object], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, field in enumerate(fields):
        at, json_path = f"{path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not json_path:
            yield causes.required(at)
            continue
        if json_path in seen:
            yield causes.duplicate(at, json_path)
        seen.add(json_path)
        try:
            steps = jsonpath.field_names(json_path)
        except ValueError as error:
            yield causes.invalid(at, json_path, f"is an invalid path: {error}")
            continue
        if steps[0] == "metadata":
            yield causes.invalid(at, json_path, "must not point to fields in metadata")
            continue
        found = _field_schema(schema, steps)
        if found is None:
            yield causes.invalid(at, json_path, "is an invalid path: does not refer to a valid field")
        elif found.get("type") not in ("boolean", "integer", "string"):
            text = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            yield causes.invalid(at, json_path, text)
    if len(seen) > _MAX_SELECTABLE:
        yield causes.too_many(path, len(seen), _MAX_SELECTABLE)


def _field_schema(schema: Any, steps: tuple[str, ...]) -> Object | None:
    for name in steps:
        properties = schema.get("properties") if isinstance(schema, dict) else None
        schema = properties.get(name) if isinstance(properties, dict) else None
    return schema if isinstance(schema, dict) else None


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
