"""Sequences of objects that chance has changed: what a server refuses, in which words, and what it makes of the rest.

The specimens have most fields of their kinds; a field is left out, misspelt, doubled, exchanged with another, or gets
an odd value. Nothing is kept. The chance is the same each time, so answers can be recorded.
"""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from tests.conformance.recorded.steps import Step, post
from trainshed.kube.builtin.registry import RESOURCES
from trainshed.kube.meta.objects import Object

Place: TypeAlias = tuple[str | int, ...]
_OF_EACH, _OF_PODS = 14, 30
_ODD = (
    "", "x", "X_y", "-a", "a/b", "a/b/c", "A.b", "a" * 64, "a" * 254, "1.2.3.4", "::1", "0", "-1", "1", "5%", "101%",
    "1Gi", "1e3", "-1Gi", "1.5", "100m", "../x", "/x", "/x/../y", "a:b", "true", "None", "*", "*.a.b", " a", "a ", "é",
    "http://x", "$(A)", "a,b", "0 0 * * *", "@hourly", "2026-01-01T00:00:00Z", "10.0.0.0/8", "kubernetes.io/x",
)  # fmt: skip
_NUMBERS = (0, -1, 1, 2, 3, 100, 101, 300, 65535, 65536, 2**31 - 1, 2**31, 2**62)
_ANY = (None, True, False, 0, 1, -1, 7, 65536, 2**31, 1.5, [], {}, "", "x", ["x"], {"a": "b"}, [None], [{}])
_WAYS = ("drop", "drop", "odd", "odd", "odd", "odd", "any", "exchange", "double", "unknown", "rename")
_VALIDATION = ({}, {}, {"fieldValidation": "Strict"}, {"fieldValidation": "Warn"})


def _places(value: Any, at: Place = ()) -> list[Place]:
    """Return the places of all that is in a value."""
    if isinstance(value, dict):
        inner = [(key, part) for key, part in value.items()]
    elif isinstance(value, list):
        inner = list(enumerate(value))
    else:
        return []
    return [place for key, part in inner for place in ((*at, key), *_places(part, (*at, key)))]


def _owner(value: Any, place: Place) -> Any:
    for key in place[:-1]:
        value = value[key]
    return value


def changeable(obj: Object) -> list[Place]:
    fixed = (("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"))
    return [place for place in _places(obj) if place not in fixed]


def _mutated(chance: random.Random, specimen: Object) -> Object:
    obj = copy.deepcopy(specimen)
    for _ in range(chance.choice((1, 1, 1, 1, 2, 2, 3))):
        if places := changeable(obj):
            mutate(chance, obj, places)
    return obj


def mutate(chance: random.Random, obj: Object, places: list[Place]) -> None:
    place = chance.choice(places)
    owner, key = _owner(obj, place), place[-1]
    value, way = owner[key], chance.choice(_WAYS)
    if way == "drop":
        del owner[key]
    elif way == "odd":
        owner[key] = _odd(chance, value)
    elif way == "any":
        owner[key] = copy.deepcopy(chance.choice(_ANY))
    elif way == "exchange":
        other = chance.choice(places)
        owner[key] = copy.deepcopy(_owner(obj, other)[other[-1]])
    elif way == "double" and isinstance(value, list) and value:
        value.append(copy.deepcopy(chance.choice(value)))
    elif way == "unknown" and isinstance(value, dict):
        value[chance.choice(("bogus", "name", "x y"))] = copy.deepcopy(chance.choice(_ANY))
    elif way == "rename" and isinstance(owner, dict):
        owner[chance.choice((*_ODD, "bogus"))] = owner.pop(key)


def _odd(chance: random.Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return chance.choice((*_NUMBERS, value + 1, value - 1))
    return chance.choice(_ODD) if isinstance(value, str) else type(value)()


def _steps(specimen: Object) -> list[Step]:
    chance = random.Random(f"{specimen['kind']} {sorted(specimen.get('spec') or specimen)}")
    group, _, version = specimen["apiVersion"].rpartition("/")
    info = next(
        i
        for i in RESOURCES
        if (i.resource.group, i.resource.version, i.resource.kind) == (group, version, specimen["kind"])
    )
    within = "/namespaces/{ns}" if info.resource.namespaced else ""
    path = f"/{'apis' if group else 'api'}/{specimen['apiVersion']}{within}/{info.resource.plural}"
    count = _OF_PODS if specimen["kind"] == "Pod" else _OF_EACH
    objects = [specimen, *(_mutated(chance, specimen) for _ in range(count))]
    return [post(path, obj, dryRun="All", **chance.choice(_VALIDATION)) for obj in objects]


def _sequences() -> dict[str, list[Step]]:
    out: dict[str, list[Step]] = {}
    text = (Path(__file__).parent / "specimens.yaml").read_text()
    for specimen in yaml.safe_load_all(text):
        family = specimen["apiVersion"].rpartition("/")[0].partition(".")[0] or "core"
        family = "pods" if specimen["kind"] == "Pod" else family
        out.setdefault(f"mutations of {family}", []).extend(_steps(specimen))
    return out


MUTATIONS = _sequences()
