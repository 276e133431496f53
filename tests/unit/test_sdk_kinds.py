"""Faces know kinds by the registry: another generation, in a group of its own, is found without a change to them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from trainshed.api.kind import Kind
from trainshed.api.registry import KINDS, kind_of
from trainshed.api.verdict import Verdict
from trainshed.client.client import Client
from trainshed.client.transport import Response
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.wire.request import Request
from trainshed.sdk import state
from trainshed.sdk.jobs import kinds

NEXT = Kind(
    group="next.example.com",
    version="v2",
    name="NextJob",
    singular="nextjob",
    plural="nextjobs",
    root=msgspec.defstruct("NextJob", []),
    printer_columns=(),
    defaults=lambda obj: obj,
    validate=lambda obj, old: Verdict(),
    controller_name="nextjob-controller",
    framework="next",
)
FIRST = next(iter(KINDS.values()))


@pytest.fixture
def next_generation(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(KINDS, NEXT.name, NEXT)
    yield


class Discovery:
    """A transport to a server that serves these resources by API version, and Kubeflow's `Notebook` beside them."""

    def __init__(self, served: dict[str, list[str]], status: int = 404) -> None:
        self.served = served
        self.status = status

    async def request(self, request: Request) -> Response:
        plurals = self.served.get(request.path.removeprefix("/apis/"))
        if plurals is None:
            return Response(self.status, {}, b'{"kind": "Status", "message": "no", "code": %d}' % self.status)
        rows = [{"name": name, "kind": "Any", "namespaced": True} for name in [*plurals, "notebooks"]]
        return Response(200, {}, msgspec.json.encode({"resources": rows}))


def found(discovery: Discovery) -> list[str]:
    client = Client(discovery)  # type: ignore[arg-type]
    return [resource.kind for resource in asyncio.run(kinds(client))]


@pytest.mark.usefixtures("next_generation")
def test_kinds_of_every_generation_are_found() -> None:
    served = {FIRST.api_version: [FIRST.plural, f"{FIRST.plural}/status"], NEXT.api_version: [NEXT.plural]}
    assert found(Discovery(served)) == [FIRST.name, NEXT.name]


@pytest.mark.usefixtures("next_generation")
def test_a_server_may_lack_a_generation() -> None:
    assert found(Discovery({FIRST.api_version: [FIRST.plural]})) == [FIRST.name]
    assert found(Discovery({NEXT.api_version: [NEXT.plural]})) == [NEXT.name]


def test_a_server_without_any_says_so() -> None:
    with pytest.raises(ApiError) as refused:
        found(Discovery({}))
    assert refused.value.code == 404


@pytest.mark.usefixtures("next_generation")
def test_what_else_goes_wrong_with_one_generation_is_said() -> None:
    with pytest.raises(ApiError) as refused:
        found(Discovery({FIRST.api_version: [FIRST.plural]}, status=403))
    assert refused.value.code == 403


@pytest.mark.usefixtures("next_generation")
def test_a_kind_without_replica_types_has_no_replicas_to_require() -> None:
    job: Object = {"apiVersion": NEXT.api_version, "kind": NEXT.name, "metadata": {"name": "a"}, "spec": {}}
    state.require_replicas(job)
    assert kind_of(job) is NEXT and state.replica_specs(job) == {}
    assert not NEXT.runs_programs and not NEXT.starts_ranks


def test_a_kind_in_another_version_is_not_ours() -> None:
    assert kind_of({"apiVersion": f"{FIRST.group}/v0", "kind": FIRST.name}) is None
