"""Patches by content type: which ones exist, and the two that need no schema.

Strategic merge is in `strategic`, server-side apply in `apply`. No function here changes its arguments; results
share what did not change with the target.
"""

from __future__ import annotations

from typing import Any

from trainshed.kube.meta.errors import ApiError, unsupported_media_type
from trainshed.kube.patch.jsonpatch import json_patch

__all__ = ["APPLY", "JSON", "MERGE", "STRATEGIC", "check_patch_type", "json_patch", "merge_patch"]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

_BUILTIN_TYPES = (JSON, MERGE, STRATEGIC, APPLY)
_CUSTOM_TYPES = (JSON, MERGE, APPLY)


def check_patch_type(content_type: str, *, custom: bool) -> str:
    """Return the patch type that a Content-Type names, without its parameters.

    Raises:
        ApiError: 415, listing what is accepted. Custom resources take no strategic merge patch, which is how
            kubectl learns to send a merge patch instead.
    """
    kind = content_type.partition(";")[0].strip().lower()
    accepted = _CUSTOM_TYPES if custom else _BUILTIN_TYPES
    if kind not in _BUILTIN_TYPES:
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", detailed=True)
    if kind not in accepted:
        raise unsupported_media_type(accepted)
    return kind


def merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` with an RFC 7386 merge patch applied: maps merge, null deletes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    out = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict):
            out[key] = merge_patch(out.get(key), value)
        else:
            out[key] = value
    return out
