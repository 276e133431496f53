"""What a conversion webhook is asked, and what of its answer can be taken.

Source: `apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`, texts included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from trainshed.kube.meta.errors import ApiError, Cause
from trainshed.kube.meta.golang import type_name
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.schema.metadata import annotations_causes, labels_causes

GROUP = "apiextensions.k8s.io"
SECONDS = 30
"""How long a conversion webhook has."""
_VERSIONS = ("v1", "v1beta1")
_SAME = (("name", "name"), ("namespace", "namespace"), ("uid", "UID"))


def review(webhook: Object, objects: Sequence[Object], wanted: str, uid: str) -> Object:
    """Return the ConversionReview that asks for `objects` in the version `wanted` (`group/version`)."""
    accepted = webhook.get("conversionReviewVersions") or ()
    version = next((one for one in accepted if one in _VERSIONS), "v1")
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "ConversionReview",
        "request": {"uid": uid, "desiredAPIVersion": wanted, "objects": list(objects)},
    }


def failed(obj: Object, why: str) -> ApiError:
    """Return the error of a conversion that could not be done at all; `obj` is the first that was to be converted."""
    return _error(obj, f"failed: {why}")


def converted(asked: Object, body: bytes) -> list[Object]:
    """Return the objects that the answer to the review `asked` has, with the metadata of those that were sent: of that
    only labels and annotations may change.

    Raises:
        ApiError: 500, without a reason as upstream: the webhook says that it failed, or its answer does not fit.
    """
    request = asked["request"]
    sent: list[Object] = request["objects"]
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise failed(sent[0], f"could not decode the response: {error}") from error
    if not isinstance(answer, dict):
        raise failed(sent[0], "couldn't get version/kind; json parse error: the response is no object")
    given = _given(asked, sent[0], answer)
    if len(given) != len(sent):
        raise _error(sent[0], f"returned {len(given)} objects, expected {len(sent)}")
    return [
        _taken(old, new, index, request["desiredAPIVersion"])
        for index, (old, new) in enumerate(zip(sent, given, strict=True))
    ]


def _given(asked: Object, first: Object, answer: Object) -> list[Any]:
    named = f"{answer.get('apiVersion', '')}, Kind={answer.get('kind', '')}"
    wanted = f"{asked['apiVersion']}, Kind=ConversionReview"
    if named != wanted:
        raise failed(first, f"expected webhook response of {wanted}, got {named}")
    response = answer.get("response")
    if not isinstance(response, dict):
        raise failed(first, "no response provided")
    uid = asked["request"]["uid"]
    if response.get("uid") != uid:
        raise failed(first, f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    result = section(response, "result")
    if result.get("status") != "Success":
        message = (
            result.get("message") or f"response.result.status was '{result.get('status', '')}', not 'Success'"
        )
        raise failed(first, str(message))
    given = response.get("convertedObjects")
    return given if isinstance(given, list) else []


def _taken(old: Object, new: Any, index: int, wanted: str) -> Object:
    at = f"object at index {index}"
    if not isinstance(new, dict):
        raise _error(old, f"returned invalid converted {at}: it is no object")
    if new.get("apiVersion") != wanted:
        why = f"invalid groupVersion (expected {wanted}, received {new.get('apiVersion', '')})"
        raise _error(old, f"returned invalid converted {at}: {why}")
    if new.get("kind") != old["kind"]:
        why = f"invalid kind (expected {old['kind']}, received {new.get('kind', '')})"
        raise _error(old, f"returned invalid converted {at}: {why}")
    sent, received = old["metadata"], new.get("metadata")
    if received is not None and not isinstance(received, dict):
        raise _error(
            old,
            f"returned invalid metadata in {at}: invalid metadata of type {type_name(received)} in converted object",
        )
    for field, name in _SAME:
        before, after = sent.get(field) or "", (received or {}).get(field) or ""
        if before != after:
            raise _error(
                old, f"returned invalid converted {at}: must have the same {name}: {before} != {after}"
            )
    if received is None:
        raise _error(old, f"returned invalid metadata in {at}: missing metadata in converted object")
    metadata = dict(sent)
    for field in ("labels", "annotations"):
        metadata.pop(field, None)
        if (value := received.get(field)) is not None:
            metadata[field] = _checked(old, value, field, at, sent.get(field))
    return {"apiVersion": wanted, "kind": old["kind"], "metadata": metadata} | {
        key: value for key, value in new.items() if key not in ("apiVersion", "kind", "metadata")
    }


def _checked(old: Object, value: Any, field: str, at: str, before: Any) -> dict[str, str]:
    where = f"returned invalid metadata in {at}"
    if not isinstance(value, dict):
        raise _error(old, f"{where}: invalid metadata.{field} of type {type_name(value)} in converted object")
    for key, text in value.items():
        if not isinstance(text, str):
            what = f"metadata.{field}[{key}] must be a string, but is {type_name(text)} in converted object"
            raise _error(old, f"{where}: {what}")
    if value != before:
        rules = labels_causes if field == "labels" else annotations_causes
        found: list[Cause] = list(rules(value, f"metadata.{field}"))
        if found:
            raise _error(old, f"{where}: " + ", ".join(f"{cause.field}: {cause.message}" for cause in found))
    return value


def _error(obj: Object, what: str) -> ApiError:
    return ApiError(500, "", f"conversion webhook for {obj['apiVersion']}, Kind={obj['kind']} {what}")
