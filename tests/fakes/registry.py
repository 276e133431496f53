"""A registry of images in this process, written from the distribution specification: what a client may meet.

Credentials, tokens, redirects and downloads that break off are settings. It checks what it is given, like a real one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from trainshed.cluster.images import oci

USER, PASSWORD = "me", "secret:with:colons"


class FakeRegistry:
    """`auth` is none, basic or token. `break_after`: after how many bytes the next blobs that
    are longer break off."""

    def __init__(self, auth: str = "none") -> None:
        self.auth = auth
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}
        self.requests: list[str] = []
        self.ranges: list[str] = []
        self.break_after: list[int] = []
        self.address = ""
        self._uploads: set[str] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[FakeRegistry]:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_get("/token", self._token)
        app.router.add_route("*", "/v2/", self._base)
        app.router.add_route("*", "/v2/{name:.+}/manifests/{which}", self._manifest)
        app.router.add_post("/v2/{name:.+}/blobs/uploads/", self._begin)
        app.router.add_put("/v2/{name:.+}/blobs/uploads/{upload}", self._finish)
        app.router.add_get("/v2/{name:.+}/blobs/{digest}", self._blob)
        server = TestServer(app)
        await server.start_server()
        self.address = f"127.0.0.1:{server.port}"
        try:
            yield self
        finally:
            await server.close()

    def _refuse(self, request: web.Request) -> web.Response | None:
        self.requests.append(f"{request.method} {request.path}")
        given = request.headers.get("Authorization", "")
        if self.auth == "basic" and given != self._basic():
            return self._error(401, "UNAUTHORIZED", {"WWW-Authenticate": 'Basic realm="here"'})
        if self.auth == "token" and not given.startswith("Bearer tok-"):
            realm = f'Bearer realm="http://{self.address}/token",service="reg"'
            name = request.match_info.get("name")
            scope = f',scope="repository:{name}:pull,push"' if name else ""
            return self._error(401, "UNAUTHORIZED", {"WWW-Authenticate": realm + scope})
        return None

    def _basic(self) -> str:
        return "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    def _error(self, status: int, code: str, headers: dict[str, str] | None = None) -> web.Response:
        text = json.dumps({"errors": [{"code": code, "message": f"it is {code.lower()}"}]})
        return web.Response(status=status, text=text, headers=headers)

    async def _token(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != self._basic() or request.query["service"] != "reg":
            return self._error(401, "UNAUTHORIZED")
        return web.json_response({"token": f"tok-{request.query['scope']}"})

    async def _base(self, request: web.Request) -> web.Response:
        return self._refuse(request) or web.Response()

    async def _manifest(self, request: web.Request) -> web.Response:
        if refused := self._refuse(request):
            return refused
        key = f"{request.match_info['name']}/{request.match_info['which']}"
        if request.method == "PUT":
            data = await request.read()
            manifest = oci.manifest_of(data)
            if any(part.digest not in self.blobs for part in (manifest.config, *manifest.layers)):
                return self._error(400, "MANIFEST_BLOB_UNKNOWN")
            self.add_manifest(key, request.content_type, data)
            return web.Response(status=201)
        if key not in self.manifests:
            return self._error(404, "MANIFEST_UNKNOWN")
        media_type, data = self.manifests[key]
        return web.Response(body=data, content_type=media_type)

    def add_manifest(self, key: str, media_type: str, data: bytes) -> str:
        """Store a manifest by `name/tag` and by its digest, which is returned."""
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.manifests[key] = self.manifests[f"{key.rpartition('/')[0]}/{digest}"] = (media_type, data)
        return digest

    async def _begin(self, request: web.Request) -> web.Response:
        if refused := self._refuse(request):
            return refused
        upload = str(uuid.uuid4())
        self._uploads.add(upload)
        return web.Response(status=202, headers={"Location": f"{request.path}{upload}?_state=x"})

    async def _finish(self, request: web.Request) -> web.Response:
        if refused := self._refuse(request):
            return refused
        data, digest = await request.read(), request.query["digest"]
        if request.match_info["upload"] not in self._uploads or request.query["_state"] != "x":
            return self._error(404, "BLOB_UPLOAD_UNKNOWN")
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != digest:
            return self._error(400, "DIGEST_INVALID")
        self.blobs[digest] = data
        return web.Response(status=201)

    async def _blob(self, request: web.Request) -> web.StreamResponse:
        if refused := self._refuse(request):
            return refused
        data = self.blobs.get(request.match_info["digest"])
        if data is None:
            return self._error(404, "BLOB_UNKNOWN")
        begin, status = 0, 200
        if found := re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", "")):
            begin, status = int(found[1]), 206
            self.ranges.append(found[1])
        rest = data[begin:]
        headers: dict[str, Any] = {"Content-Length": str(len(rest))}
        answer = web.StreamResponse(status=status, headers=headers)
        await answer.prepare(request)
        if request.method == "GET" and self.break_after and len(rest) > self.break_after[0]:
            await answer.write(rest[: self.break_after.pop(0)])
            assert request.transport is not None
            request.transport.close()
            return answer
        if request.method == "GET":
            await answer.write(rest)
        await answer.write_eof()
        return answer
