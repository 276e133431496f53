"""What two servers' OpenAPI documents are compared by: a digest of each schema and each operation, without prose."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from trainshed.kube.meta.objects import Object

_METHODS = {"get", "put", "post", "delete", "options", "head", "patch"}


def of_document(document: Object) -> dict[str, str]:
    """Return digests by name of the schema, or by method and path; of version 2 or 3."""
    shared = document.get("parameters", {})
    schemas = document.get("definitions") or document.get("components", {}).get("schemas", {})
    out = {name: digest(schema) for name, schema in schemas.items()}
    for path, item in document.get("paths", {}).items():
        common = _plain(item.get("parameters", []), shared)
        for method, operation in item.items():
            if method in _METHODS and "x-kubernetes-action" in operation:
                out[f"{method} {path}"] = digest([_plain(operation, shared), common])
    return out


def digest(value: Any) -> str:
    """Return the digest of a value of JSON, in which order and descriptions do not count."""
    text = json.dumps(_plain(value, {}), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _plain(value: Any, shared: Object) -> Any:
    if isinstance(value, dict):
        reference = value.get("$ref", "")
        if isinstance(reference, str) and reference.startswith("#/parameters/"):
            return _plain(shared[reference.removeprefix("#/parameters/")], shared)
        return {key: _plain(part, shared) for key, part in value.items() if not _is_prose(key, part)}
    if isinstance(value, list):
        return sorted(
            (_plain(part, shared) for part in value), key=lambda part: json.dumps(part, sort_keys=True)
        )
    return value


def _is_prose(key: str, part: Any) -> bool:
    return key == "description" and isinstance(part, str)
