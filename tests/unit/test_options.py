"""What a client writes into a query, the server reads from it: property by type, and end to end by verb."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.client.client import Client
from trainshed.client.transport import Response
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.resources import CONFIGMAPS, NODES, PODS
from trainshed.kube.wire import route
from trainshed.kube.wire.options import (
    POLICIES,
    CollectionOptions,
    CreateOptions,
    DeleteOptions,
    ExecOptions,
    GetOptions,
    ListOptions,
    LogOptions,
    Options,
    PatchOptions,
    PortForwardOptions,
    TableOptions,
    UpdateOptions,
    WatchOptions,
    WriteOptions,
    flag,
    manager_of,
)
from trainshed.kube.wire.request import Request, parse_query
from trainshed.kube.wire.route import Route

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXTS,
    bool: st.booleans(),
    bool | None: st.none() | st.booleans(),
    int | None: st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
    tuple[str, ...]: st.lists(TEXTS, max_size=3).map(tuple),
}
FREE = (GetOptions, CollectionOptions, ListOptions, WatchOptions, TableOptions, LogOptions, ExecOptions)
"""Types that take any text and number."""

WRITES = {
    "field_manager": st.text(st.characters(categories=("L", "N")), max_size=128),
    "field_validation": st.sampled_from(("", "Ignore", "Warn", "Strict")),
}


@pytest.mark.parametrize(
    ("agent", "manager"),
    [
        ("Python-urllib/3.11", "Python-urllib"),
        ("kubectl", "kubectl"),
        ("a\tb\x85c/1", "abc"),
        ("x" * 300, "x" * 128),
        ("", "unknown"),
        ("/1", "unknown"),
    ],
)
def test_who_names_no_manager_is_named_by_its_program(agent: str, manager: str) -> None:
    assert manager_of(agent) == manager


def sent(options: Options) -> Options:
    """Return the options as they come out at the other end."""
    return type(options).decode(parse_query(urlencode(options.encode()).encode()))


@pytest.mark.parametrize("kind", FREE)
def test_free_options_survive_the_query(kind: type[Options]) -> None:
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
    strategies = {name: BY_TYPE[type_] for name, type_ in fields.items()}

    @given(st.builds(kind, **strategies))
    def check(options: Options) -> None:
        assert sent(options) == options

    check()


@pytest.mark.parametrize("kind", [CreateOptions, UpdateOptions, PatchOptions])
def test_write_options_survive_the_query(kind: type[WriteOptions]) -> None:
    @given(st.builds(kind, **WRITES))
    def check(options: WriteOptions) -> None:
        assert sent(options) == options

    check()


@given(st.builds(PortForwardOptions, st.lists(st.integers(1, 65535)).map(tuple)))
def test_ports_survive_the_query(options: PortForwardOptions) -> None:
    assert sent(options) == options


DELETES = st.builds(
    DeleteOptions,
    dry_run=st.booleans(),
    grace_period_seconds=st.none() | st.integers(),
    propagation_policy=st.none() | st.sampled_from(POLICIES),
    orphan_dependents=st.none(),
    uid=TEXTS,
    resource_version=TEXTS,
) | st.builds(DeleteOptions, orphan_dependents=st.booleans(), uid=TEXTS)


@given(DELETES)
def test_delete_options_survive_the_body(options: DeleteOptions) -> None:
    body = msgspec.json.decode(msgspec.json.encode(options.encode()))
    assert DeleteOptions.decode({}, body) == options
    assert bool(body) == (options != DeleteOptions()), "nothing to say needs no body"


def test_the_query_completes_a_delete_s_body() -> None:
    query = parse_query(b"gracePeriodSeconds=3&propagationPolicy=Orphan&dryRun=All&resourceVersion=7")
    assert DeleteOptions.decode(
        query, {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}
    ) == DeleteOptions(dry_run=True, grace_period_seconds=0, propagation_policy="Orphan", uid="u")
    assert DeleteOptions.decode(parse_query(b"orphanDependents=false"), {}).orphan_dependents is False


@pytest.mark.parametrize(
    ("kind", "query", "code", "message"),
    [
        (
            ListOptions,
            "limit=ten",
            400,
            'strconv.ParseInt: parsing "ten": invalid syntax',
        ),
        (
            LogOptions,
            "tailLines=9223372036854775808",
            400,
            'strconv.ParseInt: parsing "9223372036854775808": invalid syntax',
        ),
        (PortForwardOptions, "ports=80,x", 400, 'unable to parse "x" as a port'),
        (PortForwardOptions, "ports=65536", 400, 'unable to parse "65536" as a port'),
        (
            CreateOptions,
            "dryRun=Some",
            422,
            'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: []string{"Some"}:'
            ' supported values: "All"',
        ),
        (
            UpdateOptions,
            "fieldManager=a%00b",
            422,
            'UpdateOptions.meta.k8s.io "" is invalid: fieldManager: Invalid value: "a\\u0000b":'
            " should only contain printable characters",
        ),
        (
            PatchOptions,
            "fieldValidation=strict&dryRun=1",
            422,
            'PatchOptions.meta.k8s.io "" is invalid: [dryRun: Unsupported value: []string{"1"}:'
            ' supported values: "All",'
            ' fieldValidation: Unsupported value: "strict": supported values: "", "Ignore", "Strict", "Warn"]',
        ),
    ],
)
def test_bad_values_are_refused(kind: type[Options], query: str, code: int, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        kind.decode(parse_query(query.encode()))
    assert (caught.value.code, caught.value.message) == (code, message)


@pytest.mark.parametrize(
    ("query", "given_", "message"),
    [
        (b"dryRun=1", {"dryRun": ["2", ""]}, "dryRun"),
        (b"", {"propagationPolicy": "Never"}, "propagationPolicy"),
        (b"orphanDependents=1", {"propagationPolicy": "Orphan"}, "cannot be both set"),
        (b"", {"gracePeriodSeconds": True}, "gracePeriodSeconds must be an integer"),
    ],
)
def test_bad_delete_options_are_refused(query: bytes, given_: dict[str, Any], message: str) -> None:
    with pytest.raises(ApiError, match=message):
        DeleteOptions.decode(parse_query(query), given_)


@pytest.mark.parametrize(
    ("options", "query"),
    [
        (GetOptions("7"), "resourceVersion=7"),
        (
            ListOptions("7", "Exact", "a=b", "metadata.name=c", 5, "t"),
            "resourceVersion=7&resourceVersionMatch=Exact&labelSelector=a=b&fieldSelector=metadata.name=c&limit=5"
            "&continue=t",
        ),
        (
            WatchOptions(timeout_seconds=0, allow_watch_bookmarks=True, send_initial_events=False),
            "watch=true&timeoutSeconds=0&allowWatchBookmarks=true&sendInitialEvents=false",
        ),
        (TableOptions("Object"), "includeObject=Object"),
        (
            LogOptions("c", True, True, True, 0, 1, "2026-01-01T00:00:00Z", 2),
            "container=c&follow=true&previous=true&timestamps=true&tailLines=0&sinceSeconds=1"
            "&sinceTime=2026-01-01T00:00:00Z&limitBytes=2",
        ),
        (CreateOptions("m", True, "Warn"), "fieldManager=m&dryRun=All&fieldValidation=Warn"),
        (PatchOptions(force=False), "force=false"),
        (
            ExecOptions("c", ("sh", "-c", ""), True, True, True, True),
            "container=c&command=sh&command=-c&command=&stdin=true&stdout=true&stderr=true&tty=true",
        ),
        (PortForwardOptions((80, 8080)), "ports=80&ports=8080"),
    ],
)
def test_parameters_have_the_names_of_kubernetes(options: Options, query: str) -> None:
    assert "&".join(f"{name}={value}" for name, value in options.encode()) == query


def test_values_are_read_as_go_reads_them() -> None:
    query = parse_query(b"follow&previous=FALSE&timestamps=no&tailLines=&container=a&container=b&x=y")
    assert LogOptions.decode(query) == LogOptions(container="a", follow=True, timestamps=True)
    assert not flag(query, "absent")
    assert not flag(parse_query(b"watch=0"), "watch") and flag(parse_query(b"watch"), "watch")
    assert PortForwardOptions.decode(parse_query(b"ports=1&ports=2,3")).ports == (1, 2, 3)


class Recorder:
    """A transport that keeps the request and answers with nothing."""

    status = 200

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        return Response(200, {}, b"{}")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Recorder]:
        self.requests.append(request)
        yield self

    async def chunks(self) -> AsyncIterator[bytes]:
        for chunk in ():
            yield chunk

    async def read(self) -> bytes:
        return b""

    async def close(self) -> None:
        pass


async def _all(items: Any) -> None:
    async for _ in items:
        pass


CALLS: list[tuple[Callable[[Client], Coroutine[Any, Any, Any]], Route, Options]] = [
    (lambda c: c.get(PODS, "p", "ns"), Route("get", "", "v1", "pods", "ns", "p"), GetOptions()),
    (
        lambda c: c.list(PODS, "ns", label_selector="a in (b, c)", limit=5, continue_token="t+/="),
        Route("list", "", "v1", "pods", "ns"),
        ListOptions(label_selector="a in (b, c)", limit=5, continue_token="t+/="),
    ),
    (
        lambda c: _all(c.watch(NODES, resource_version="7", timeout_seconds=9)),
        Route("watch", "", "v1", "nodes"),
        WatchOptions(resource_version="7", timeout_seconds=9, allow_watch_bookmarks=True),
    ),
    (
        lambda c: c.create(CONFIGMAPS, {"metadata": {"name": "c"}}, dry_run=True, field_validation="Strict"),
        Route("create", "", "v1", "configmaps", "default"),
        CreateOptions(field_manager="me", dry_run=True, field_validation="Strict"),
    ),
    (
        lambda c: c.update(PODS, {"metadata": {"name": "p", "namespace": "ns"}}, subresource="status"),
        Route("update", "", "v1", "pods", "ns", "p", "status"),
        UpdateOptions(field_manager="me"),
    ),
    (
        lambda c: c.patch(PODS, "p", "ns", {}, dry_run=True),
        Route("patch", "", "v1", "pods", "ns", "p"),
        PatchOptions(field_manager="me", dry_run=True),
    ),
    (
        lambda c: c.apply(NODES, {"metadata": {"name": "n"}}, field_manager="x", force=False),
        Route("patch", "", "v1", "nodes", None, "n"),
        PatchOptions(field_manager="x", force=False),
    ),
    (
        lambda c: _all(c.logs("p", "ns", LogOptions(container="c", follow=True, tail_lines=0))),
        Route("get", "", "v1", "pods", "ns", "p", "log"),
        LogOptions(container="c", follow=True, tail_lines=0),
    ),
]


@pytest.mark.parametrize(("call", "expected", "options"), CALLS)
def test_the_server_reads_what_the_client_meant(
    call: Callable[[Client], Coroutine[Any, Any, Any]], expected: Route, options: Options
) -> None:
    recorder = Recorder()
    asyncio.run(call(Client(recorder, user_agent="me/1")))
    (request,) = recorder.requests
    query = parse_query(request.query_string.encode())
    assert route.parse(request.method, request.path, watch=flag(query, "watch")) == expected
    assert type(options).decode(query) == options


def test_a_delete_says_its_preconditions_in_the_body() -> None:
    recorder = Recorder()
    client = Client(recorder)
    asyncio.run(client.delete(PODS, "p", "ns", uid="u", propagation_policy="Foreground"))
    asyncio.run(client.delete(PODS, "p", "ns"))
    given_, bare = recorder.requests
    assert route.parse(given_.method, given_.path) == Route("delete", "", "v1", "pods", "ns", "p")
    assert DeleteOptions.decode({}, msgspec.json.decode(given_.body or b"")) == DeleteOptions(
        propagation_policy="Foreground", uid="u"
    )
    assert (bare.body, bare.content_type) == (None, None)
