"""Groups and versions that other API servers serve: which they are, whether they can be asked, what they serve.

Like `Definitions`, it follows the store: `sync` runs before every request. `run` asks the servers and writes their
condition into the APIServices; requests are passed on by `forwarding`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec

from trainshed.cluster.apiserver import callbacks
from trainshed.cluster.apiserver.access import AGGREGATOR, User
from trainshed.cluster.apiserver.core import Core
from trainshed.cluster.store import Compacted, KeyExists, KeyMissing, RevisionMismatch, Stored, keys
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, section, spec_of
from trainshed.kube.meta.resources import APISERVICES, CRDS, SERVICES
from trainshed.kube.meta.times import format_time
from trainshed.kube.served import apiservices
from trainshed.kube.served.apiservices import Availability
from trainshed.kube.served.registry import External
from trainshed.kube.wire.asgi import Header

_PREFIX = keys.under(APISERVICES)
_CHECK_SECONDS = 30.0
"""How often a server that answers is asked again, as upstream."""
_RETRY_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
_DROPPED = (
    b"host",
    b"authorization",
    b"content-length",
    b"connection",
    b"transfer-encoding",
    b"keep-alive",
    b"te",
)


class Credentials(msgspec.Struct, frozen=True):
    """What the API server shows to others: files of a certificate and its key."""

    certificate: Path
    key: Path


class Remote(msgspec.Struct, frozen=True):
    """An APIService with a Service: who serves a group and version."""

    name: str
    group: str
    version: str
    spec: Object
    available: bool

    @property
    def host(self) -> str:
        """The name that the server's certificate has to have."""
        service = section(self.spec, "service")
        return f"{service.get('name')}.{service.get('namespace')}.svc"


class _Known(msgspec.Struct, frozen=True):
    """What a server said when it was last asked."""

    resources: tuple[Object, ...]
    openapi: bytes
    current: bool


class Aggregation:
    """Keeps the registry up to date with the APIServices in the store. `follow` takes in what else is served."""

    def __init__(self, core: Core, credentials: Credentials | None, follow: Callable[[], None]) -> None:
        self._core = core
        self._credentials = credentials
        self._follow = follow
        self._remotes: dict[tuple[str, str], Remote] = {}
        self._known: dict[tuple[str, str], _Known] = {}
        self._load()

    def _load(self) -> None:
        self._watch = self._core.store.watch(_PREFIX, self._core.store.revision)
        self._gather()

    def sync(self) -> None:
        """Take in what changed since the last call. Cheap when nothing did."""
        try:
            if self._watch.drain():
                self._gather()
        except Compacted:
            self._load()

    def _gather(self) -> None:
        builtin = set(self._core.kinds.registry.builtin_groups()) - apiservices.REPLACEABLE
        found: dict[tuple[str, str], Remote] = {}
        for stored in self._core.store.list(_PREFIX)[0]:
            spec = spec_of(stored.obj)
            group, version = str(spec.get("group") or ""), str(spec.get("version") or "")
            if spec.get("service") is None or group in builtin:
                continue
            name, available = str(stored.obj["metadata"]["name"]), apiservices.is_available(stored.obj)
            found[group, version] = Remote(name, group, version, spec, available)
        for key, remote in found.items():
            if key in self._remotes and self._remotes[key].spec != remote.spec:
                self._known.pop(key, None)
        self._remotes = found
        self._known = {key: known for key, known in self._known.items() if key in found}
        self._delegate()

    def _delegate(self) -> None:
        external: dict[tuple[str, str], External] = {}
        for key, remote in self._remotes.items():
            known = self._known.get(key)
            external[key] = External(
                group_priority=remote.spec.get("groupPriorityMinimum", 0),
                version_priority=remote.spec.get("versionPriority", 0),
                resources=known.resources if known else (),
                current=remote.available and known is not None and known.current,
                openapi=known.openapi if known else b"",
            )
        self._core.kinds.registry.delegate(external)

    def serving(self, path: str) -> Remote | None:
        """Return who serves a path, None where this server does."""
        if not self._remotes:
            return None
        parts = [part for part in path.split("/") if part]
        if len(parts) < 3 or parts[0] != "apis":
            return None
        return self._remotes.get((parts[1], parts[2]))

    def trust(self, remote: Remote) -> ssl.SSLContext:
        """Return the context of connections to a server. Raises `CallFailed` where its `caBundle` is none."""
        from trainshed.cluster.apiserver.outgoing import CallFailed, context

        try:
            bundle = base64.b64decode(remote.spec.get("caBundle") or "", validate=True)
        except binascii.Error as error:
            raise CallFailed(f"unable to load root certificates: {error}") from error
        made = context(bundle, insecure=bool(remote.spec.get("insecureSkipTLSVerify")))
        if self._credentials is not None:
            made.load_cert_chain(self._credentials.certificate, self._credentials.key)
        return made

    # ------------------------------------------------------------------------------------------- in the background

    async def run(self) -> None:
        """Keep conditions, discovery and the APIServices of this server's own groups up to date, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_local())
            tasks.create_task(self._keep_conditions())

    async def _keep_local(self) -> None:
        while True:
            since = self._core.store.revision
            self._follow()
            self.sync()
            await self._write_local()
            await self._change(since, _PREFIX, keys.under(CRDS))

    async def _write_local(self) -> None:
        store, now = self._core.store, format_time(self._core.clock())
        wanted = apiservices.local(self._core.kinds.registry, now)
        held = {str(stored.obj["metadata"]["name"]): stored for stored in store.list(_PREFIX)[0]}
        await asyncio.gather(*(self._create(wanted[name], now) for name in wanted if name not in held))
        for name, stored in held.items():
            local = spec_of(stored.obj).get("service") is None
            if local and name not in wanted and apiservices.is_automanaged(stored.obj):
                try:
                    await store.delete(stored.key, stored.revision)
                except (RevisionMismatch, KeyMissing):
                    pass  # looked at again on the event that this came from
            elif local:
                await self._write(stored, apiservices.LOCAL)

    async def _create(self, obj: Object, now: str) -> None:
        metadata = {**obj["metadata"], "uid": str(uuid.uuid4()), "creationTimestamp": now}
        try:
            await self._core.store.create(
                keys.of(APISERVICES, None, metadata["name"]), {**obj, "metadata": metadata}
            )
        except KeyExists:
            pass

    async def _keep_conditions(self) -> None:
        while True:
            since = self._core.store.revision
            self.sync()
            results = await asyncio.gather(*(self._check(remote) for remote in self._remotes.values()))
            seconds = None if not results else _CHECK_SECONDS if all(results) else _RETRY_SECONDS
            await self._change(since, _PREFIX, seconds=seconds)

    async def _change(self, since: int, *prefixes: str, seconds: float | None = None) -> None:
        """Return when something below the prefixes changes after the revision `since`, or after so many seconds."""
        watches = []
        try:
            watches = [self._core.store.watch(prefix, since) for prefix in prefixes]
            waiting = [asyncio.ensure_future(watch.batch()) for watch in watches]
            try:
                await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in waiting:
                    one.cancel()
                ended = await asyncio.gather(*waiting, return_exceptions=True)
            if any(batch == [] for batch in ended):
                await asyncio.get_running_loop().create_future()  # the store closes: to be cancelled
        except Compacted:
            pass
        finally:
            for watch in watches:
                watch.close()

    async def _check(self, remote: Remote) -> bool:
        """Ask a server, and write down what came of it; return whether it can be asked."""
        stored = self._core.store.get(keys.of(APISERVICES, None, remote.name))
        if stored is None:
            return True
        key = (remote.group, remote.version)
        found, known = await self._ask(remote, stored.obj)
        if known is not None:
            self._known[key] = known
        elif key in self._known:
            self._known[key] = msgspec.structs.replace(self._known[key], current=False)
        if self._remotes.get(key) is not None:
            self._delegate()
        await self._write(stored, found)
        return found.holds

    async def _write(self, stored: Stored, found: Availability) -> None:
        status = apiservices.with_condition(stored.obj, found, format_time(self._core.clock()))
        if status == stored.obj.get("status"):
            return
        try:
            await self._core.store.update(stored.key, {**stored.obj, "status": status}, stored.revision)
        except (RevisionMismatch, KeyMissing):
            pass  # looked at again on the event that this came from

    async def _ask(self, remote: Remote, obj: Object) -> tuple[Availability, _Known | None]:
        reference = section(remote.spec, "service")
        namespace = str(reference.get("namespace"))
        service = self._core.store.get(keys.of(SERVICES, namespace, str(reference.get("name"))))
        pod = None if service is None else callbacks.pod_behind(self._core, namespace, spec_of(service.obj))
        problem = apiservices.unreachable(obj, None if service is None else service.obj, pod is not None)
        if problem is not None or service is None:
            assert problem is not None
            return problem, None
        path = f"/apis/{remote.group}/{remote.version}"
        address = spec_of(service.obj).get("clusterIP") or remote.host
        url = f"https://{address}:{reference.get('port', 443)}{path}"
        failed = f"failing or missing response from {url}"
        try:
            status, body = await self._get(remote, path)
            if not 200 <= status < 300:
                return Availability(
                    False, "FailedDiscoveryCheck", f"{failed}: bad status from {url}: {status}"
                ), None
            resources = apiservices.resources_of(msgspec.json.decode(body))
            if resources is None:
                return Availability(False, "FailedDiscoveryCheck", f"{failed}: no APIResourceList"), None
            status, body = await self._get(remote, f"/openapi/v3{path}")
        except (ConnectionError, msgspec.DecodeError) as error:
            text = f'{failed}: Get "{url}": {error}'
            return Availability(False, "FailedDiscoveryCheck", text), None
        openapi = body if status == 200 and _is_document(body) else b""
        return apiservices.PASSED, _Known(resources, openapi, current=True)

    async def _get(self, remote: Remote, path: str) -> tuple[int, bytes]:
        """Return status and body of a GET in the server's own name. Raises ConnectionError with the reason."""
        from trainshed.cluster.apiserver.outgoing import CallFailed, Exchange

        stream = None
        headers = [*identity(AGGREGATOR), (b"host", remote.host.encode()), (b"accept", b"application/json")]
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                trust = self.trust(remote)
                stream = await callbacks.connect(self._core, remote.spec)
                exchange = Exchange(stream, trust, remote.host)
                head = await exchange.send("GET", path, [*headers, (b"connection", b"close")])
                return head.status, await exchange.whole()
        except TimeoutError as error:
            raise ConnectionError("context deadline exceeded") from error
        except (CallFailed, OSError, ApiError) as error:
            raise ConnectionError(str(error) or type(error).__name__) from error
        finally:
            if stream is not None:
                await stream.close()


def _is_document(body: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(body), dict)
    except msgspec.DecodeError:
        return False


def identity(user: User) -> list[Header]:
    """Return the headers that tell another API server who asks."""
    out: list[Header] = [(b"x-remote-user", _value(user.username))]
    if user.uid:
        out.append((b"x-remote-uid", _value(user.uid)))
    out += [(b"x-remote-group", _value(group)) for group in user.groups]
    for key, values in user.extra.items():
        name = b"x-remote-extra-" + _escaped(key)
        out += [(name, _value(value)) for value in values]
    return out


def passed_on(headers: list[Header]) -> list[Header]:
    """Return the headers of a request that another server gets: nothing that says who asks, or how we are connected."""
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in _DROPPED
        and not name.lower().startswith((b"x-remote-", b"impersonate-", b"proxy-"))
    ]


def _value(text: str) -> bytes:
    return text.encode().replace(b"\r", b"").replace(b"\n", b"").replace(b"\0", b"").strip()


def _escaped(key: str) -> bytes:
    """Return the name of an extra as a header may have it (`k8s.io/client-go/transport.headerKeyEscape`)."""
    kept = b"!#$&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
    return b"".join(bytes([byte]) if byte in kept else b"%%%02X" % byte for byte in key.lower().encode())
