"""A webhook server for recordings: what it answers at each path, and what it was asked."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.fakes.https import serve_https
from trainshed.certificates import make_authority
from trainshed.kube.meta.objects import Object

_LATE_SECONDS = 4.0
Answer = Callable[[Object], web.Response]


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, text=json.dumps(value), content_type="application/json")


def says(allowed: bool, *, version: str = "v1", **response: Any) -> Answer:
    """Return an answer to the uid that was asked with."""

    def answer(request: Object) -> web.Response:
        said = {"uid": request["uid"], "allowed": allowed, **response}
        return _json(
            {"apiVersion": f"admission.k8s.io/{version}", "kind": "AdmissionReview", "response": said}
        )

    return answer


def denies(**status: Any) -> Answer:
    return says(False, status=status)


def patches(*operations: Any, kind: str | None = "JSONPatch") -> Answer:
    return patch_of(json.dumps(list(operations)), kind)


def patch_of(text: str, kind: str | None = "JSONPatch") -> Answer:
    """Return the answer with a patch, whatever it is."""
    named = {} if kind is None else {"patchType": kind}
    return says(True, patch=base64.b64encode(text.encode()).decode(), **named)


def raw(text: str, status: int = 200, kind: str = "application/json", **headers: str) -> Answer:
    return lambda request: web.Response(status=status, text=text, content_type=kind, headers=headers)


def whole(**review: Any) -> Answer:
    """Return an AdmissionReview with nothing but these fields."""
    return lambda request: _json(review)


def add(path: str, value: Any) -> Object:
    return {"op": "add", "path": path, "value": value}


def _appends(letter: str) -> Answer:
    """Return an answer that appends a letter to `data.seen`."""

    def answer(request: Object) -> web.Response:
        data = request["object"].get("data") or {}
        seen = data.get("seen", "") + letter
        change = add("/data", {"seen": seen}) if not data else add("/data/seen", seen)
        return patches(change)(request)

    return answer


REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
ANSWERS: dict[str, Answer] = {
    "allow": says(True),
    "warn": says(True, warnings=["one", "two\nlines", "", "three: ü", "x" * 300]),
    "audit": says(True, auditAnnotations={"a": "b", "bad key": "c"}),
    "allow-status": says(True, status={"code": 403, "message": "ignored"}),
    "deny": says(False),
    "deny-warn": says(False, warnings=["mind"], status={"message": "no"}),
    "deny-message": denies(message="not today"),
    "deny-code": denies(code=403, message="forbidden fruit"),
    "deny-low": denies(code=200, message="fine", status="Success"),
    "deny-high": denies(code=799, message="high"),
    "deny-conflict": denies(code=409, reason="Conflict", message="taken"),
    "deny-reason": denies(reason="Strange"),
    "deny-server": denies(
        code=503, reason="ServiceUnavailable", message="later", details={"retryAfterSeconds": 3}
    ),
    "deny-details": denies(
        code=422,
        reason="Invalid",
        message="bad",
        metadata={"resourceVersion": "5"},
        details={
            "name": "n",
            "kind": "K",
            "causes": [{"reason": "FieldValueInvalid", "message": "m", "field": "data.x"}],
        },
    ),
    "deny-odd": says(False, status={"code": "403"}),
    "uid-wrong": says(True, uid="other"),
    "uid-none": says(True, uid=""),
    "answer-beta": says(True, version="v1beta1"),
    "answer-v2": says(True, version="v2"),
    "kind": whole(apiVersion="admission.k8s.io/v1", kind="Review", response={}),
    "nothing": whole(),
    "no-response": whole(**REVIEW),
    "null-response": whole(**REVIEW, response=None),
    "empty": raw(""),
    "not-json": raw("<html>"),
    "half": raw('{"apiVersion": "admission.k8s.io/v1", "kind": "Adm'),
    "array": raw("[]"),
    "500": raw("broken", 500, "text/plain"),
    "404": raw("404 page not found\n", 404, "text/plain"),
    "503": raw("", 503),
    "status-403": raw(
        json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "go", "code": 403}),
        403,
    ),
    "302": raw("", 302, Location="/allow"),
    "201": lambda request: _json({**REVIEW, "response": {"uid": request["uid"], "allowed": False}}, 201),
    "text": lambda request: web.Response(text=says(False)(request).text or "", content_type="text/plain"),
    "unknown-field": says(False, colour="red", status={"message": "still read"}),
    "patches": patches(add("/data", {"added": "x"})),
    "patch-no-type": patches(add("/data", {"added": "x"}), kind=None),
    "patch-other-type": patches(add("/data", {"added": "x"}), kind="MergePatch"),
    "type-no-patch": says(True, patchType="JSONPatch"),
    "patch-not-base64": says(True, patchType="JSONPatch", patch="%%%"),
    "patch-not-json": patch_of("{"),
    "patch-object": patch_of("{}"),
    "patch-null": patch_of("null"),
    "patch-empty": patches(),
    "patch-several": patches(
        add("/data", {"a": "1"}), add("/data/b", "2"), {"op": "test", "path": "/data/a", "value": "1"}
    ),
    "patch-test": patches({"op": "test", "path": "/data/a", "value": "other"}),
    "patch-missing": patches({"op": "remove", "path": "/data/nothing"}),
    "patch-replace": patches({"op": "replace", "path": "/nothing/there", "value": 1}),
    "patch-op": patches({"op": "jump", "path": "/data"}),
    "patch-type": patches(add("/data", {"added": 5})),
    "patch-list": patches(add("/data", [])),
    "patch-unknown": patches(add("/colour", "red")),
    "patch-name": patches(add("/metadata/name", "other")),
    "patch-namespace": patches(add("/metadata/namespace", "default")),
    "patch-uid": patches(add("/metadata/uid", "11111111-2222-3333-4444-555555555555")),
    "patch-kind": patches(add("/kind", "Secret")),
    "patch-invalid": patches(add("/data", {"not a key!": "x"})),
    "patch-metadata": patches({"op": "remove", "path": "/metadata"}),
    "patch-labels": patches(add("/metadata/labels/added", "x"), add("/metadata/annotations", {"a": "b"})),
    "patch-root": patches({"op": "replace", "path": "", "value": {"data": {"a": "b"}}}),
    "patch-large": patches(add("/data", {"large": "x" * 900_000})),
    "patch-denied": says(False, patchType="JSONPatch", patch="W10=", status={"message": "no patch"}),
    "patch-spec": patches(add("/spec/replicas", 7)),
    "patch-status": patches(add("/status", {"replicas": 7})),
    "a": _appends("a"),
    "b": _appends("b"),
    "c": _appends("c"),
}


class Asked:
    """What the server was asked since somebody looked."""

    def __init__(self) -> None:
        self.url = ""
        self.bundle = ""
        self.reviews: list[Object] = []

    def fill(self, text: str) -> str:
        """Return text with where the server is, and whom to trust."""
        for name, value in (("hook", self.url), ("ca", self.bundle), ("stranger", _stranger())):
            text = text.replace(f"{{{name}}}", value)
        return text

    async def handle(self, request: web.Request) -> web.Response:
        if not request.can_read_body:  # where a redirection has led
            return web.Response(status=400)
        review = await request.json()
        case = request.path.strip("/")
        head = {name: request.headers.get(name) for name in ("accept", "content-type")}
        self.reviews.append({"asked": request.path_qs, **head, **review})
        if case == "late":
            await asyncio.sleep(_LATE_SECONDS)
            case = "allow"
        return ANSWERS[case](review["request"])

    def taken(self) -> list[Object]:
        """Return, and forget, what was asked; in order of the paths where those were asked at the same time."""
        out, self.reviews = self.reviews, []
        return out


def _stranger() -> str:
    return base64.b64encode(make_authority("stranger", datetime.now(UTC)).certificate.encode()).decode()


@asynccontextmanager
async def serve_hooks() -> AsyncIterator[Asked]:
    """Serve the answers on loopback."""
    asked = Asked()
    with tempfile.TemporaryDirectory() as home:
        async with serve_https(Path(home), asked.handle, ["hook.example.com"]) as at:
            asked.url, asked.bundle = f"https://127.0.0.1:{at.port}", at.bundle
            yield asked
