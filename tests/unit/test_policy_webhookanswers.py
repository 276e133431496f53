"""What the answers of admission webhooks mean, in the words of kube-apiserver 1.33."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from trainshed.kube.meta.errors import ApiError
from trainshed.kube.policy.webhookanswers import patched, verdict
from trainshed.kube.wire.clienterrors import client_error

NAME = "h.example.com"


def answer(**response: Any) -> bytes:
    return msgspec.json.encode({"response": {"uid": "u", "allowed": True, **response}})


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_answers() -> None:
    patch = encoded('[{"op":"remove","path":"/a"}]')
    found = verdict(NAME, answer(patch=patch, patchType="JSONPatch", warnings=["w"]), "u", mutating=True)
    assert found.patch == b'[{"op":"remove","path":"/a"}]' and found.warnings == ("w",)
    refused = verdict(NAME, answer(allowed=False, status={"code": 200, "reason": "Why"}), "u").refusal
    assert refused is not None and refused.code == 400
    assert refused.message == 'admission webhook "h.example.com" denied the request: Why'


def test_a_refusal_is_passed_on() -> None:
    details = {"retryAfterSeconds": 3, "causes": [{"message": "m", "field": "f"}]}
    status = {"code": 503, "reason": "ServiceUnavailable", "message": "later", "details": details}
    refused = verdict(NAME, answer(allowed=False, status=status, warnings=["", "a\nb", "c"]), "u")
    assert refused.warnings == ("c",), "a header holds no other"
    assert refused.refusal is not None
    assert refused.refusal.headers == {"Retry-After": "3"}
    wire = refused.refusal.status()
    assert (wire["code"], wire["reason"], wire["details"]) == (503, "ServiceUnavailable", details)
    unexplained = verdict(NAME, answer(allowed=False), "u").refusal
    assert unexplained is not None and "reason" not in unexplained.status()
    assert unexplained.message.endswith("denied the request without explanation")


def test_answers_in_the_older_version() -> None:
    review = {"apiVersion": "admission.k8s.io/v1beta1", "response": {"allowed": True, "patch": encoded("[]")}}
    found = verdict(NAME, msgspec.json.encode(review), "u", version="v1beta1", mutating=True)
    assert found.patch == b"[]", "no uid, no patchType"


INVALID = "received invalid webhook response: "
FAILED = "failed to call webhook: "
TYPED = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
PARSE = f"{FAILED}couldn't get version/kind; json parse error: "
CANNOT = "json: cannot unmarshal"
OF_RESPONSE = "into Go struct field AdmissionResponse.response"
V2 = b'{"apiVersion": "admission.k8s.io/v2", "kind": "AdmissionReview"}'
BETA = b'{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}'
SCHEME = 'in scheme "k8s.io/apiserver/pkg/util/webhook/client.go:71"'


@pytest.mark.parametrize(
    ("body", "mutating", "why"),
    [
        (b"nonsense", False, f"{PARSE}{CANNOT} string into Go value of type {TYPED}"),
        (b"[]", False, f"{PARSE}{CANNOT} array into Go value of type {TYPED}"),
        (b'{"a', False, f"{PARSE}unexpected end of JSON input"),
        (b"{}", False, f"{INVALID}webhook response was absent"),
        (b'{"response": null}', False, f"{INVALID}webhook response was absent"),
        (
            V2,
            False,
            f'{FAILED}no kind "AdmissionReview" is registered for version "admission.k8s.io/v2" {SCHEME}',
        ),
        (
            BETA,
            False,
            f"{FAILED}converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
        ),
        (
            b'{"response": []}',
            False,
            f"{FAILED}{CANNOT} array into Go struct field AdmissionReview.response of type v1.AdmissionResponse",
        ),
        (answer(allowed="yes"), False, f"{FAILED}{CANNOT} string {OF_RESPONSE}.allowed of type bool"),
        (
            answer(status={"code": "1"}),
            False,
            f"{FAILED}{CANNOT} string into Go struct field Status.response.status.code of type int32",
        ),
        (answer(warnings=[1]), False, f"{FAILED}{CANNOT} number {OF_RESPONSE}.warnings of type string"),
        (answer(uid="v"), False, f'{INVALID}expected response.uid="u", got "v"'),
        (
            answer(patchType="JSONPatch"),
            False,
            f"{INVALID}validating webhook may not return response.patchType",
        ),
        (answer(patch="e30="), False, f"{INVALID}validating webhook may not return response.patch"),
        (
            answer(patchType="JSONPatch"),
            True,
            f"{INVALID}webhook returned response.patchType but not response.patch",
        ),
        (answer(patch="e30="), True, f"{INVALID}webhook returned response.patch but not response.patchType"),
        (answer(patch="e30=", patchType="Merge"), True, 'unsupported patch type "Merge"'),
        (answer(patch="ab#", patchType="JSONPatch"), True, f"{FAILED}illegal base64 data at input byte 2"),
    ],
)
def test_answers_that_are_none(body: bytes, mutating: bool, why: str) -> None:
    with pytest.raises(ValueError) as refused:
        verdict(NAME, body, "u", mutating=mutating)
    assert str(refused.value) == why


DOCUMENT = {"data": {"a": "1"}, "list": [1]}


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ("{", "unexpected end of JSON input"),
        ("{}", "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        ('[{"op":"jump"}]', "Unexpected kind: jump"),
        ("[1]", "Unexpected kind: unknown"),
        (
            '[{"op":"test","path":"/x/a","value":"1"}]',
            "test operation does not apply: is missing path: /x/a: missing value",
        ),
        ('[{"op":"test","path":"/data/a","value":"2"}]', "testing value /data/a failed: test failed"),
        (
            '[{"op":"add","path":"/x/y","value":1}]',
            'add operation does not apply: doc is missing path: "/x/y": missing value',
        ),
        (
            '[{"op":"remove","path":"/x/y"}]',
            'remove operation does not apply: doc is missing path: "/x/y": missing value',
        ),
        (
            '[{"op":"remove","path":"/data/b"}]',
            "error in remove for path: '/data/b': Unable to remove nonexistent key: b: missing value",
        ),
        (
            '[{"op":"replace","path":"/x/b","value":1}]',
            "replace operation does not apply: doc is missing path: /x/b: missing value",
        ),
        (
            '[{"op":"replace","path":"","value":1}]',
            "json: cannot unmarshal number into Go value of type map[string]interface {}",
        ),
    ],
)
def test_patches_that_do_not_fit_are_the_servers_errors(patch: str, why: str) -> None:
    with pytest.raises(ApiError) as refused:
        patched(DOCUMENT, patch.encode())
    assert (refused.value.code, refused.value.message) == (500, f"Internal error occurred: {why}")


def test_patches() -> None:
    assert patched(DOCUMENT, b'[{"op":"add","path":"/list/-","value":2}]')["list"] == [1, 2]
    assert patched(DOCUMENT, b"null") == DOCUMENT == patched(DOCUMENT, b"[]")


@pytest.mark.parametrize(
    ("status", "kind", "body", "text"),
    [
        (200, "", b"{}", ""),
        (206, "", b"x", ""),
        (200, "a/b", b"", "0-length response with status code: 200 and content type: a/b"),
        (
            500,
            "text/plain; charset=utf-8",
            b" broken\n",
            'an error on the server ("broken") has prevented the request from succeeding',
        ),
        (
            502,
            "application/json",
            b"broken",
            'an error on the server ("unknown") has prevented the request from succeeding',
        ),
        (404, "text/plain", b"404 page not found", "the server could not find the requested resource"),
        (403, "text/plain", b"go", "go"),
        (403, "", b'{"kind":"Status","status":"Failure","message":"away"}', "away"),
        (
            302,
            "",
            b"",
            "the server responded with the status code 302 but did not return more details (post)",
        ),
    ],
)
def test_errors_in_the_words_of_a_client(status: int, kind: str, body: bytes, text: str) -> None:
    assert client_error(status, kind, body) == text
