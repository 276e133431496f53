"""Paths that name no object: discovery, OpenAPI, version, health, metrics, who signs tokens."""

from __future__ import annotations

import platform
from collections.abc import Callable

from trainshed.cluster.apiserver import requestmetrics
from trainshed.cluster.apiserver.core import Core
from trainshed.cluster.apiserver.http import Answer, Incoming, encode_json
from trainshed.cluster.apiserver.rendering import yaml_answer
from trainshed.cluster.apiserver.requestmetrics import RequestMetrics
from trainshed.cluster.apiserver.tokens import JWKS_PATH, openid_configuration
from trainshed.cluster.store.backup import dump
from trainshed.kube.meta.errors import no_such_resource
from trainshed.kube.meta.objects import Object
from trainshed.kube.served import discovery
from trainshed.kube.served.openapi import OpenAPI
from trainshed.kube.wire.negotiate import OPENAPI_V2_PROTOBUF, for_discovery, wants_openapi_v2_protobuf

GIT_VERSION = "v1.33.2+trainshed"
HealthCheck = Callable[[], str]
"""Returns what is wrong, empty when all is well."""

NOT_FOUND = Answer(b"404 page not found\n", status=404, content_type="text/plain; charset=utf-8")
BACKUP_PATH = "/trainshed/backup"
"""All objects, for those who may read every path: `trainshed backup`."""
_HEALTH = ("healthz", "livez", "readyz")
_YEAR = b"public, immutable"
_HOUR = ((b"cache-control", b"public, max-age=3600"),)


class NonResource:
    """Answers everything that is not about an object."""

    def __init__(self, core: Core, checks: dict[str, HealthCheck]) -> None:
        self._registry = core.kinds.registry
        self._store = core.store
        self._issuer = core.authenticator.issuer
        self.requests = RequestMetrics(core, GIT_VERSION)
        self._openapi = OpenAPI(self._registry, GIT_VERSION)
        self._checks = checks
        self._aggregated: dict[tuple[bool, str], tuple[int, bytes, str]] = {}

    async def get(self, request: Incoming) -> Answer:
        """Return the answer to a GET of the path."""
        parts = [part for part in request.path.split("/") if part]
        match parts:
            case ["version"]:
                return Answer.json(self._version_info())
            case ["trainshed", "backup"]:
                lines = dump(*self._store.list("/"), self._store.transformer)
                return Answer(b"".join(lines), content_type="application/jsonl")
            case [("healthz" | "livez" | "readyz") as name, *rest]:
                return self._health(request, name, rest)
            case ["api" | "apis" as root]:
                return self._root(request, root)
            case ["api", version]:
                return self._resources(request, "", version)
            case ["apis", group]:
                return self._document(request, discovery.api_group(self._registry, group))
            case ["apis", group, version]:
                return self._resources(request, group, version)
            case ["openapi", "v2"]:
                return await self._openapi_v2(request)
            case ["openapi", "v3"]:
                document = encode_json(self._openapi.root())
                return _tagged(request, document, discovery.etag(self._openapi.root()))
            case ["openapi", "v3", "api", version]:
                return await self._openapi_v3(request, "", version)
            case ["openapi", "v3", "apis", group, version]:
                return await self._openapi_v3(request, group, version)
            case [".well-known", "openid-configuration"]:
                return Answer.json(openid_configuration(), headers=_HOUR)
            case ["openid", "v1", "jwks"]:
                body = encode_json(self._issuer.key_set())
                return Answer(body, content_type="application/jwk-set+json", headers=_HOUR)
            case ["metrics"]:
                return Answer(self.requests.exposition(), content_type=requestmetrics.CONTENT_TYPE)
            case []:
                return Answer.json({"paths": self._paths()})
        return NOT_FOUND

    def _version_info(self) -> Object:
        major, minor = GIT_VERSION.removeprefix("v").split(".")[:2]
        return {
            "major": major,
            "minor": minor,
            "emulationMajor": major,
            "emulationMinor": minor,
            "minCompatibilityMajor": major,
            "minCompatibilityMinor": str(int(minor) - 1),
            "gitVersion": GIT_VERSION,
            "gitCommit": "0" * 40,
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "go1.24",
            "compiler": "gc",
            "platform": f"{platform.system().lower()}/{_architecture()}",
        }

    def _health(self, request: Incoming, name: str, rest: list[str]) -> Answer:
        if rest:
            check = self._checks.get(rest[0])
            if check is None and rest[0] != "ping":
                return NOT_FOUND
            problem = check() if check else ""
            return Answer.text(
                f"internal server error: {problem}" if problem else "ok", status=_code(problem)
            )
        problems = {key: check() for key, check in self._checks.items()}
        failed = any(problems.values())
        lines = ["[+]ping ok"]
        for key, problem in problems.items():
            lines.append(f"[-]{key} failed: {problem}" if problem else f"[+]{key} ok")
        if "verbose" in request.query or failed:
            lines.append(f"{name} check {'failed' if failed else 'passed'}")
            return Answer.text("\n".join(lines) + "\n", status=500 if failed else 200)
        return Answer.text("ok")

    def _root(self, request: Incoming, root: str) -> Answer:
        wanted = for_discovery(request.headers.get("accept"))
        if wanted.form == "discovery":
            key = (root == "api", wanted.version)
            held = self._aggregated.get(key)
            if held is None or held[0] != self._registry.revision:
                document = discovery.aggregated(self._registry, core=root == "api", version=wanted.version)
                held = (self._registry.revision, encode_json(document), discovery.etag(document))
                self._aggregated[key] = held
            return _tagged(request, held[1], held[2], wanted.content_type, vary=True)
        if root == "api":
            document = discovery.api_versions(request.headers.get("host", "localhost"))
        else:
            document = discovery.api_group_list(self._registry)
        return yaml_answer(document) if wanted.form == "yaml" else _legacy(document)

    def _resources(self, request: Incoming, group: str, version: str) -> Answer:
        document = discovery.api_resource_list(self._registry, group, version)
        if document is None and self._registry.has_group(group):
            return Answer.error(no_such_resource())
        return self._document(request, document)

    def _document(self, request: Incoming, document: Object | None) -> Answer:
        if document is None:
            return NOT_FOUND
        wanted = for_discovery(request.headers.get("accept"))
        return yaml_answer(document) if wanted.form == "yaml" else _legacy(document)

    async def _openapi_v2(self, request: Incoming) -> Answer:
        protobuf = wants_openapi_v2_protobuf(request.headers.get("accept"))
        kind = OPENAPI_V2_PROTOBUF if protobuf else "application/json"
        tag = f'"{self._openapi.whole_hash(protobuf=protobuf)}"'
        if discovery.matches(request.headers.get("if-none-match"), tag):
            return _tagged(request, b"", tag, kind, vary=True)
        document = await request.in_turn(lambda: self._openapi.whole(protobuf=protobuf))
        return _tagged(request, document, tag, kind, vary=True)

    async def _openapi_v3(self, request: Incoming, group: str, version: str) -> Answer:
        if not self._openapi.has(group, version):
            return NOT_FOUND
        digest = self._openapi.hash(group, version)
        tag, immutable = f'"{digest}"', digest in request.query.get("hash", ())[:1]
        if discovery.matches(request.headers.get("if-none-match"), tag):
            return _tagged(request, b"", tag, immutable=immutable)
        document = await request.in_turn(lambda: self._openapi.document(group, version))
        return NOT_FOUND if document is None else _tagged(request, document, tag, immutable=immutable)

    def _paths(self) -> list[str]:
        paths = ["/api", "/api/v1", "/apis"]
        for group in self._registry.groups():
            if group:
                paths.append(f"/apis/{group}")
                paths += [f"/apis/{group}/{version}" for version in self._registry.versions(group)]
        paths = ["/.well-known/openid-configuration", *paths, *(f"/{name}" for name in _HEALTH)]
        return [*paths, "/metrics", "/openapi/v2", "/openapi/v3", JWKS_PATH, "/version"]


def _code(problem: str) -> int:
    return 500 if problem else 200


def _architecture() -> str:
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def _legacy(document: Object) -> Answer:
    return Answer.json(document, headers=((b"vary", b"Accept"),))


def _tagged(
    request: Incoming,
    body: bytes,
    tag: str,
    content_type: str = "application/json",
    *,
    vary: bool = False,
    immutable: bool = False,
) -> Answer:
    """Return a document that clients may keep, or 304 when they have it."""
    headers = [(b"etag", tag.encode())]
    if vary:
        headers.append((b"vary", b"Accept"))
    if immutable:
        headers.append((b"cache-control", _YEAR))
    if discovery.matches(request.headers.get("if-none-match"), tag):
        return Answer(status=304, content_type=content_type, headers=tuple(headers))
    return Answer(body, content_type=content_type, headers=tuple(headers))
