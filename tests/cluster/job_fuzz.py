"""What becomes of any manifest: the API server takes it or refuses it at a field, and nobody falls over it."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.api_world import World, open_world
from tests.fakes.plans import written
from trainshed.cli.check import print_json, print_verdict
from trainshed.cli.controlplane import admission
from trainshed.jobs.engine.model import Observed
from trainshed.jobs.v1.decide import decide
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CRDS
from trainshed.operator.objects import crds
from trainshed.sdk import manifests
from trainshed.sdk.check import examine, examine_offline
from trainshed.sdk.errors import UserError
from trainshed.sdk.foresight.gather import of_machine
from trainshed.sdk.foresight.world import World as Place
from trainshed.testing.builders import JOB_KINDS

_FIELD = re.compile(r"\b(api ?version|kind|metadata|namespace|spec|status)\b|unknown field \"", re.IGNORECASE)


@asynccontextmanager
async def fuzzed_server(home: Path) -> AsyncIterator[World]:
    """Yield an API server that knows the kinds, and admits jobs as the embedded cluster does."""
    async with open_world(home, admission=admission()) as world:
        for definition in crds():
            await world.client.apply(CRDS, definition, field_manager="test")
        world.client.namespace = "default"
        yield world


async def examined(world: World, documents: Iterable[tuple[str, Object]]) -> tuple[Counter[str], list[str]]:
    """Return how many manifests were taken and refused by the server, and by `check`; and what is wrong, by name."""
    fates: Counter[str] = Counter()
    wrong: list[str] = []
    for number, (name, obj) in enumerate(documents):
        for face, ask in FACES.items():
            try:
                fate = await ask(world, name.partition(" ")[0], obj, number)
            except Exception as error:  # whatever it is, a user would see it as a traceback
                fate = f"{type(error).__name__}: {error}"
            fates[f"{face}: {fate if fate in ('taken', 'refused') else 'wrong'}"] += 1
            if fate not in ("taken", "refused"):
                wrong.append(f"{name}, {face}: {fate[:400]}")
    return fates, wrong


async def by_the_server(world: World, kind: str, obj: Object, number: int) -> str:
    """Return `taken`, `refused`, or what is wrong with the answer to a create. The operator then makes a plan."""
    path = f"/apis/kubeflow.org/v1/namespaces/default/{JOB_KINDS[kind].plural}"
    validation = ("Strict", "Warn", "Ignore")[number % 3]
    response = await world.raw("POST", path, obj, dryRun="All", fieldValidation=validation)
    answer: Any = json.loads(response.body)
    if response.status == 201:
        stored = {**answer, "metadata": {**answer["metadata"], "uid": "uid"}}
        written(decide(Observed(job=stored, now=world.now)))
        return "taken"
    if not 400 <= response.status < 500 or answer.get("kind") != "Status" or not answer.get("message"):
        return f"answer {response.status} {answer}"
    causes = (answer.get("details") or {}).get("causes") or [{}]
    named = all(cause.get("field") for cause in causes) or _FIELD.search(answer["message"])
    return "refused" if named else f"names no field: {response.status} {answer['message']}"


def _text(obj: Object) -> str:
    """Return the file that somebody wrote."""
    text: str = yaml.dump(obj, Dumper=yaml.CSafeDumper, allow_unicode=True)
    return text


async def by_check(world: World, kind: str, obj: Object, number: int) -> str:
    """Return `taken` or `refused` by what `trainshed check` does with a file; anything else is raised."""
    try:
        objects = manifests.parse(_text(obj), "job.yaml")
        verdicts = await examine(world.client, objects, local=True)
    except (UserError, ApiError):
        return "refused"
    return "taken" if all(verdict.accepted for verdict in verdicts) else "refused"


@cache
def _machine() -> Place:
    """Return this machine, without a cluster."""
    return of_machine("default", {})


async def by_offline_check(world: World, kind: str, obj: Object, number: int) -> str:
    """Return `taken` or `refused` by what `trainshed check --offline` says of a file; anything else is raised."""
    try:
        objects = manifests.parse(_text(obj), "job.yaml")
        verdicts = examine_offline(objects, _machine())
    except (UserError, ApiError):
        return "refused"
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        print_json(verdicts)
        for verdict in verdicts:
            print_verdict(verdict)
    return "taken" if all(verdict.accepted for verdict in verdicts) else "refused"


FACES = {"server": by_the_server, "check": by_check, "check --offline": by_offline_check}
