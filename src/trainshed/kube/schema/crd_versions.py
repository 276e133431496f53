"""The versions of CustomResourceDefinitions: their schemas, columns, subresources and fields to select by.

Source of rules and texts: `apiextensions-apiserver/pkg/apis/apiextensions/validation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trainshed.kube.meta import causes, golang, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.schema.crd_schema import root_causes
from trainshed.kube.schema.crd_structural import cannot_be
from trainshed.kube.schema.fieldpaths import field_schema
from trainshed.kube.schema.soundness import unsound

_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MAX_SELECTABLE = 8
_MAX_WARNING = 256
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_SIMPLE_PATH = "must be a simple json path starting with ."


def version_causes(given: list[Object] | None) -> Iterator[Cause]:
    """Yield what is wrong with the versions of a definition, None where there are none."""
    versions = given or []
    known = [version.get("name") or "" for version in versions]
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        yield causes.invalid_shown("spec.versions", _shown(given), text)
        stored = [version.get("name") or "" for version in versions if version.get("storage")]
        if not stored:
            text = "must have at least one stored version"
            yield causes.invalid_shown("status.storedVersions", "[]string(nil)", text)
        for name in stored[1:]:
            text = f"must have the storage version {name}"
            yield causes.invalid_shown("status.storedVersions", golang.text_list(stored[:1]), text)
    if len(set(known)) != len(known):
        yield causes.invalid_shown("spec.versions", _shown(given), "must contain unique version names")
    if known and known[0] and (faults := names.dns_1035_label(known[0])):
        yield causes.invalid("spec.version", known[0], ",".join(faults))
    yield from _schemas(versions)
    for index, version in enumerate(versions):
        at = f"spec.versions[{index}]"
        for why in names.dns_1035_label(known[index]):
            yield causes.invalid(f"{at}.name", known[index], why)
        yield from _deprecation(version, f"{at}.deprecationWarning")
        checks: tuple[tuple[str, Callable[[Any, str], Iterator[Cause]]], ...] = (
            ("subresources", _subresources),
            ("additionalPrinterColumns", _columns),
        )
        for field, check in checks:
            said: Any = version.get(field)
            # What all versions say alike is the definition's, and is told once.
            if not _alike(versions, field):
                yield from check(said or {}, f"{at}.{field}")
            elif index == 0:
                yield from check(said or {}, f"spec.{field}")


def _alike(versions: list[Object], field: str) -> bool:
    return all(version.get(field) == versions[0].get(field) for version in versions)


def _schemas(versions: list[Object]) -> Iterator[Cause]:
    """Yield what is wrong with schemas, and with the fields of theirs that objects can be selected by.

    Upstream hoists what all versions have alike, so its messages name the place that it is hoisted to.
    """
    schemas: list[Object | None] = [section(version, "schema").get("openAPIV3Schema") for version in versions]
    shared = bool(schemas) and _alike(versions, "schema")
    for index, schema in enumerate(schemas):
        at = f"spec.versions[{index}].schema.openAPIV3Schema"
        if schema is None:
            yield causes.required(at, "schemas are required")
        elif not shared:
            yield from _sound(schema, at, status="status" in section(versions[index], "subresources"))
        elif index == 0:
            status = any("status" in section(version, "subresources") for version in versions)
            yield from _sound(schema, "spec.validation.openAPIV3Schema", status=status)
    if versions and _alike(versions, "selectableFields"):
        fields, path = versions[0].get("selectableFields") or [], "spec.selectableFields"
        if fields and not (shared and schemas[0] is not None):
            text = "selectableFields may only be set when validations.schema is included"
            yield causes.invalid(path, "", text)
        else:
            yield from _selectable(schemas[0], fields, path)
    else:
        for index, (version, schema) in enumerate(zip(versions, schemas, strict=True)):
            fields = version.get("selectableFields") or []
            yield from _selectable(schema, fields, f"spec.versions[{index}].selectableFields")


def _sound(schema: Object, path: str, *, status: bool) -> Iterator[Cause]:
    if status:
        yield from root_causes(schema, path)
    yield from unsound(schema, path)


def _deprecation(version: Object, path: str) -> Iterator[Cause]:
    text: str | None = version.get("deprecationWarning")
    if text is None:
        return
    faults = []
    if not version.get("deprecated"):
        faults.append("can only be set for deprecated versions")
    else:
        if len(text.encode()) > _MAX_WARNING:
            faults.append(f"must be <= {_MAX_WARNING} characters long")
        if not text:
            faults.append("must not be an empty string")
        odd = next((index for index, letter in enumerate(text) if not letter.isprintable()), None)
        if odd is not None:
            where = len(text[:odd].encode())
            faults.append(
                f"must only contain printable UTF-8 characters; non-printable character found at index {where}"
            )
    for fault in faults:
        yield causes.invalid(path, text, fault)


def _shown(versions: list[Object] | None) -> str:
    """Return versions as Go prints them, without what is alike in all."""
    package = "apiextensions"
    if versions is None:
        return f"[]{package}.CustomResourceDefinitionVersion(nil)"
    fields = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
    own = [field for field in fields if not _alike(versions, field)]
    listed = ", ".join(
        f"{package}.CustomResourceDefinitionVersion{{Name:{golang.text(version.get('name'))},"
        f" Served:{golang.flag(version.get('served'))}, Storage:{golang.flag(version.get('storage'))},"
        f" Deprecated:{golang.flag(version.get('deprecated'))},"
        f" DeprecationWarning:(*string)({_address(version.get('deprecationWarning'))}),"
        f" Schema:(*{package}.CustomResourceValidation)({_address('schema' in own and version.get('schema'))}),"
        f" Subresources:(*{package}.CustomResourceSubresources)"
        f"({_address('subresources' in own and version.get('subresources'))}),"
        f" AdditionalPrinterColumns:{_listed('additionalPrinterColumns', own, version, _COLUMN)},"
        f" SelectableFields:{_listed('selectableFields', own, version, _FIELD)}}}"
        for version in versions
    )
    return f"[]{package}.CustomResourceDefinitionVersion{{{listed}}}"


def _address(value: Any) -> str:
    """Return what Go shows of a pointer; which address it is says nothing."""
    return "nil" if value is None or value is False else "0xc000000000"


_COLUMN = (
    "CustomResourceColumnDefinition",
    {"Name": "name", "Type": "type", "Format": "format", "Description": "description", "Priority": "priority"}
    | {"JSONPath": "jsonPath"},
)
_FIELD = ("SelectableField", {"JSONPath": "jsonPath"})


def _listed(field: str, own: list[str], version: Object, type_: tuple[str, dict[str, str]]) -> str:
    name, parts = type_
    items = version.get(field) if field in own else None
    if not items:
        return f"[]apiextensions.{name}(nil)"
    shown = ", ".join(
        f"apiextensions.{name}{{"
        + ", ".join(
            f"{part}:{item.get(key) or 0}" if key == "priority" else f"{part}:{golang.text(item.get(key))}"
            for part, key in parts.items()
        )
        + "}"
        for item in items
    )
    return f"[]apiextensions.{name}{{{shown}}}"


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


def _selectable(schema: Object | None, fields: list[Object], path: str) -> Iterator[Cause]:
    if not fields:
        return
    if schema is None:
        text = "selectableFields may only be set when version.schema.openAPIV3Schema is not included"
        yield causes.invalid(path, "", text)
        return
    if why := cannot_be(schema):
        yield causes.invalid(f"{path.removesuffix('selectableFields')}schema.openAPIV3Schema", "", why)
        return
    seen: set[str] = set()
    for index, field in enumerate(fields):
        at, json_path = f"{path}[{index}].jsonPath", field.get("jsonPath") or ""
        if not json_path:
            yield causes.required(at)
            continue
        try:
            first, found = field_schema(json_path, schema, keys=False)
        except ValueError as error:
            yield causes.invalid(at, json_path, f"is an invalid path: {error}")
            continue
        if first == "metadata":
            yield causes.invalid(at, json_path, "must not point to fields in metadata")
        if found.get("type") not in ("boolean", "integer", "string"):
            text = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            yield causes.invalid(at, json_path, text)
        if json_path in seen:
            yield causes.duplicate(at, json_path)
        seen.add(json_path)
    if len(seen) > _MAX_SELECTABLE:
        yield causes.too_many(path, len(seen), _MAX_SELECTABLE)
