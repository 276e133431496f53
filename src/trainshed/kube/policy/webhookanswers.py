"""What an admission webhook's answer means, and the words in which it is refused. Pure.

Source: `apiserver/pkg/admission/plugin/webhook/{request,errors}` of Kubernetes; texts as recorded from 1.33.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

import msgspec

from trainshed.kube.meta.errors import ApiError, internal
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.patch.jsonpatch import OPERATIONS, operations_applied
from trainshed.kube.wire.body import TYPED, as_go, decode_json, json_kind

VERSIONS = ("v1", "v1beta1")
"""Versions of an AdmissionReview that can be sent, and be answered in."""
_GROUP = "admission.k8s.io"
_SCHEME = "k8s.io/apiserver/pkg/util/webhook/client.go:71"
_LAST_CODE = 599
_FIELDS: dict[str, tuple[type, str, str]] = {
    "uid": (str, "AdmissionResponse.response.uid", "types.UID"),
    "allowed": (bool, "AdmissionResponse.response.allowed", "bool"),
    "status": (dict, "AdmissionResponse.response.status", "v1.Status"),
    "patch": (str, "AdmissionResponse.response.patch", "[]uint8"),
    "patchType": (str, "AdmissionResponse.response.patchType", "v1.PatchType"),
    "auditAnnotations": (dict, "AdmissionResponse.response.auditAnnotations", "map[string]string"),
    "warnings": (list, "AdmissionResponse.response.warnings", "[]string"),
}
_OF_STATUS: dict[str, tuple[type, str, str]] = {
    "code": (int, "Status.response.status.code", "int32"),
    "message": (str, "Status.response.status.message", "string"),
    "reason": (str, "Status.response.status.reason", "v1.StatusReason"),
    "status": (str, "Status.response.status.status", "string"),
    "details": (dict, "Status.response.status.details", "v1.StatusDetails"),
}


class Verdict(msgspec.Struct, frozen=True):
    """What a webhook answered. `patch` is JSON text, empty where there is none."""

    warnings: tuple[str, ...]
    refusal: ApiError | None
    patch: bytes = b""
    annotations: Mapping[str, str] = {}


def verdict(name: str, body: bytes, uid: str, *, version: str = "v1", mutating: bool = False) -> Verdict:
    """Return what the answer of the webhook `name` says, which was asked in `version`.

    Raises:
        ValueError: it is no answer to this question; the text is what follows `failed calling webhook …: `.
    """
    response = _response(body, version)
    if response is None:
        raise ValueError("received invalid webhook response: webhook response was absent")
    encoded, kind = response.get("patch") or "", response.get("patchType")
    patch = _decoded(encoded)
    if version == "v1":
        if response.get("uid") != uid:
            why = f'expected response.uid="{uid}", got "{response.get("uid") or ""}"'
            raise ValueError(f"received invalid webhook response: {why}")
        why = _of_patch(kind, has_patch=bool(encoded), mutating=mutating)
        if why:
            raise ValueError(f"received invalid webhook response: {why}")
    warnings = tuple(text for text in response.get("warnings") or () if _fits_header(text))
    said = section(response, "auditAnnotations")
    annotations = {f"{name}/{key}": str(value) for key, value in said.items()}
    if response.get("allowed") is not True:
        return Verdict(warnings, _refusal(name, section(response, "status")), annotations=annotations)
    if not mutating or not patch:
        return Verdict(warnings, None, annotations=annotations)
    if version == "v1" and kind != "JSONPatch":
        raise ValueError(f'unsupported patch type "{kind}"')
    return Verdict(warnings, None, patch, annotations)


def patched(obj: Object, patch: bytes) -> Object:
    """Return an object with the patch of a webhook. Raises `ApiError` 500 where it does not fit, in Go's words."""
    try:
        operations = decode_json(patch)
    except (msgspec.DecodeError, ValueError) as error:
        raise internal(as_go(error, patch)) from error
    if operations is None:
        return obj
    if not isinstance(operations, list):
        what = f"json: cannot unmarshal {json_kind(operations)} into Go value of type jsonpatch.Patch"
        raise internal(what)
    kinds = (each.get("op") if isinstance(each, dict) else None for each in operations)
    unknown = next((kind for kind in kinds if kind not in OPERATIONS), "")
    if unknown != "":
        raise internal(f"Unexpected kind: {unknown or 'unknown'}")
    try:
        out = operations_applied(obj, operations)
    except ValueError as error:
        raise internal(str(error)) from error
    if not isinstance(out, dict):
        raise internal(
            f"json: cannot unmarshal {json_kind(out)} into Go value of type map[string]interface {{}}"
        )
    return out


def _response(body: bytes, version: str) -> Object | None:
    """Return `response` of a review. Raises ValueError: this is no review of the version."""
    failed = "failed to call webhook: "
    try:
        review = decode_json(body)
    except (msgspec.DecodeError, ValueError) as error:
        is_text = not body.lstrip().startswith((b"{", b"["))  # to YAML
        why = (
            f"json: cannot unmarshal string into Go value of type {TYPED}" if is_text else as_go(error, body)
        )
        raise ValueError(f"{failed}couldn't get version/kind; json parse error: {why}") from error
    if not isinstance(review, dict):
        why = f"json: cannot unmarshal {json_kind(review)} into Go value of type {TYPED}"
        raise ValueError(f"{failed}couldn't get version/kind; json parse error: {why}")
    at = str(review.get("apiVersion") or f"{_GROUP}/{version}")
    kind = str(review.get("kind") or "AdmissionReview")
    if kind != "AdmissionReview" or at not in {f"{_GROUP}/{known}" for known in VERSIONS}:
        raise ValueError(f'{failed}no kind "{kind}" is registered for version "{at}" in scheme "{_SCHEME}"')
    if at != f"{_GROUP}/{version}":
        said, wanted = at.rpartition("/")[2], version
        why = f"converting ({said}.AdmissionReview) to ({wanted}.AdmissionReview): unknown conversion"
        raise ValueError(failed + why)
    response = review.get("response")
    if response is None:
        return None
    misfit = _misfit(
        {"response": response}, {"response": (dict, "AdmissionReview.response", "v1.AdmissionResponse")}
    )
    misfit = misfit or _misfit(response, _FIELDS) or _misfit(section(response, "status"), _OF_STATUS)
    if misfit:
        raise ValueError(failed + misfit)
    return dict(response)


def _misfit(value: Object, fields: Mapping[str, tuple[type, str, str]]) -> str:
    for field, (wanted, path, go_type) in fields.items():
        found = value.get(field)
        fits = isinstance(found, wanted) and not (wanted is int and isinstance(found, bool))
        if found is not None and not fits:
            return f"json: cannot unmarshal {json_kind(found)} into Go struct field {path} of type {go_type}"
    texts = (found for found in value.get("warnings") or () if "warnings" in fields)
    for found in texts:
        if not isinstance(found, str):
            path = "AdmissionResponse.response.warnings"
            return f"json: cannot unmarshal {json_kind(found)} into Go struct field {path} of type string"
    return ""


def _decoded(encoded: str) -> bytes:
    """Return what base64 stands for. Raises ValueError."""
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/\r\n"
        at = next((index for index, letter in enumerate(encoded) if letter not in alphabet), len(encoded))
        raise ValueError(f"failed to call webhook: illegal base64 data at input byte {at}") from error


def _of_patch(kind: object, *, has_patch: bool, mutating: bool) -> str:
    """Return what is wrong with the patch of an answer in v1, as far as its fields go."""
    if not mutating:
        if has_patch:
            return "validating webhook may not return response.patch"
        return "" if kind is None else "validating webhook may not return response.patchType"
    if has_patch and kind is None:
        return "webhook returned response.patch but not response.patchType"
    if kind is not None and not has_patch:
        return "webhook returned response.patchType but not response.patch"
    return ""


def _fits_header(text: str) -> bool:
    return bool(text) and not any(letter < " " or "\x7f" <= letter < "\xa0" for letter in text)


def _refusal(name: str, status: Object) -> ApiError:
    why = f'admission webhook "{name}" denied the request'
    message = status.get("message") or status.get("reason")
    text = f"{why}: {message}" if message else f"{why} without explanation"
    code = status.get("code")
    code = code if isinstance(code, int) and 400 <= code <= _LAST_CODE else 400
    details = section(status, "details")
    seconds = details.get("retryAfterSeconds")
    error = ApiError(
        code,
        str(status.get("reason") or ""),
        text,
        retry_after_seconds=seconds if isinstance(seconds, int) and seconds > 0 else None,
    )
    if details:
        error.details = {**details, **error.details}
    return error
