"""Another generation of kinds is a decision of its own over the same engine, and a line in each registry."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec
import pytest

from trainshed.api.kind import Kind
from trainshed.api.registry import KINDS
from trainshed.api.v1.pytorch import PYTORCHJOB
from trainshed.api.verdict import Verdict
from trainshed.jobs import registry
from trainshed.jobs.engine.generation import Controlled, Generation
from trainshed.jobs.engine.model import Flag, Observed, OperatorOptions
from trainshed.jobs.engine.owned import Grant, Owns
from trainshed.jobs.engine.plan import Plan
from trainshed.kube.meta.objects import Object, name_of, namespace_of
from trainshed.kube.meta.plan import Create
from trainshed.kube.meta.resources import NODES, PODS, SECRETS, Resource
from trainshed.operator import flags, objects
from trainshed.sdk.render import render_all

OPTIONS = OperatorOptions()


class Root(msgspec.Struct, rename="camel"):
    """NextJob is made of whatever its generation decides."""

    api_version: str
    kind: str
    metadata: dict[str, str]


NEXT = Kind(
    group="next.example.com",
    version="v2",
    name="NextJob",
    singular="nextjob",
    plural="nextjobs",
    root=Root,
    printer_columns=(),
    defaults=lambda obj: obj,
    validate=lambda obj, old: Verdict(warnings=("said by the kind",)),
    controller_name="nextjob-controller",
    framework="next",
)
OWNS = Owns(resource=SECRETS, watched="next=job")
GRANT = Grant("", "configmaps", ("get",))


def _decide(observed: Observed) -> Plan:
    """Wish for a Secret named like the job."""
    if observed.owned.get(SECRETS):
        return Plan()
    job = observed.job
    file = {"metadata": {"name": name_of(job), "namespace": namespace_of(job)}, "stringData": {"is": "next"}}
    return Plan(actions=(Create(resource=SECRETS, given={"apiVersion": "v1", "kind": "Secret", **file}),))


class Plain(Generation):
    """No more than a generation must say."""

    def kinds(self) -> Collection[str]:
        return (NEXT.name,)

    def controlled(self, kind: str, options: OperatorOptions) -> Controlled:
        return Controlled(kind=NEXT, owns=(OWNS,), lookups=lambda job: (), decide=_decide)

    def owned(self, options: OperatorOptions) -> Iterable[Owns]:
        return (OWNS,)


class Full(Plain):
    """All that one may say."""

    def reads(self, options: OperatorOptions) -> Iterable[Resource]:
        return (NODES,)

    def grants(self) -> Iterable[Grant]:
        return (GRANT,)

    def flags(self) -> Iterable[Flag]:
        return (Flag(name="next-size", help="How large.", default=1, type="count"),)

    def options_of_kinds(self, values: Mapping[str, str | int]) -> dict[str, msgspec.Struct]:
        return {NEXT.name: Owns(resource=SECRETS, watched=str(values["next-size"]))}

    def needed(self, options: OperatorOptions) -> Iterable[Resource]:
        return (SECRETS,)

    def warnings(self, kind: str, obj: Object, options: OperatorOptions) -> Iterable[str]:
        return (f"said of {kind} by its generation",)


@pytest.fixture(params=[Plain, Full])
def generation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Generation]:
    made: Generation = request.param()
    monkeypatch.setitem(KINDS, NEXT.name, NEXT)
    monkeypatch.setattr(registry, "GENERATIONS", [*registry.GENERATIONS, made])
    yield made


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(KINDS, NEXT.name, NEXT)
    monkeypatch.setattr(registry, "GENERATIONS", [*registry.GENERATIONS, Full()])
    yield


def test_its_kinds_are_under_control_beside_the_others(generation: Generation) -> None:
    assert registry.controlled(NEXT.name, OPTIONS).decide is _decide
    assert registry.controlled(PYTORCHJOB.name, OPTIONS).kind is PYTORCHJOB


def test_what_its_jobs_make_is_rendered(generation: Generation) -> None:
    job = {"apiVersion": NEXT.api_version, "kind": NEXT.name, "metadata": {"name": "mine"}}
    (rendered,) = render_all([job])
    assert [(obj["kind"], obj["stringData"]) for obj in rendered.objects] == [("Secret", {"is": "next"})]


def test_permissions_and_definitions_follow(generation: Generation) -> None:
    assert registry.all_verbs(OPTIONS)[SECRETS] == ("create", "delete", "get", "list", "watch")
    assert "get" in registry.all_verbs(OPTIONS)[PODS]
    rules = objects.cluster_role()["rules"]
    assert any("nextjobs" in rule["resources"] and "watch" in rule["verbs"] for rule in rules)
    assert any(crd["metadata"]["name"] == NEXT.crd_name for crd in objects.crds())


@pytest.mark.usefixtures("full")
def test_whatever_it_says_is_heard() -> None:
    assert registry.all_verbs(OPTIONS)[NODES] == ("get",)
    assert GRANT in registry.all_grants()
    assert "next-size" in [flag.name for flag in registry.flags()]
    assert registry.needed(OPTIONS) == (SECRETS,)
    job = {"apiVersion": NEXT.api_version, "kind": NEXT.name, "metadata": {"name": "mine"}}
    assert registry.review(NEXT, job, None, OPTIONS).warnings == (
        "said by the kind",
        "said of NextJob by its generation",
    )
    parsed = flags.parse(["--next-size=7"], {})
    assert parsed.jobs.by_kind[NEXT.name] == Owns(resource=SECRETS, watched="7")


def test_a_kind_of_no_generation_is_under_nobodys_control() -> None:
    with pytest.raises(KeyError):
        registry.controlled(NEXT.name, OPTIONS)
    assert registry.review(NEXT, {}, None, OPTIONS).warnings == ("said by the kind",)
