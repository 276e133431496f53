"""A sequence of CustomResourceDefinitions whose schemas and rules chance has changed, as `mutations` does objects.

What is exchanged in a schema is drawn from what definitions of other projects have, and from what their authors get
wrong. No specimen has fields to select by: kube-apiserver 1.33 ends the connection where their schema is no structural
one.
"""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.recorded.mutations import Place, changeable, mutate
from tests.conformance.recorded.steps import CRDS, Step, post
from trainshed.kube.meta.objects import Object

_COUNT = 220
_VALIDATION = ({}, {}, {"fieldValidation": "Strict"}, {"fieldValidation": "Warn"})


def _drawn() -> Object:
    whole: Object = yaml.safe_load((Path(__file__).parent / "schemaparts.yaml").read_text())
    return whole


_PARTS = _drawn()


def _schemas(value: Any, at: Place = ()) -> list[Place]:
    """Return the places of all schemas in a definition."""
    if isinstance(value, list):
        return [place for index, part in enumerate(value) for place in _schemas(part, (*at, index))]
    if not isinstance(value, dict):
        return []
    own = [at] if "openAPIV3Schema" in at and isinstance(value.get("type"), str) else []
    return own + [place for key, part in value.items() for place in _schemas(part, (*at, key))]


def _at(value: Any, place: Place) -> Any:
    for key in place:
        value = value[key]
    return value


def _rule(chance: random.Random) -> Object:
    rule = {"rule": chance.choice(_PARTS["rules"])}
    for field, values in _PARTS["of rules"].items():
        if chance.random() < 0.18:
            rule[field] = chance.choice(values)
    if chance.random() < 0.18:
        rule["messageExpression"] = chance.choice(_PARTS["rules"])
    return rule


def _change(chance: random.Random, definition: Object) -> None:
    places = _schemas(definition)
    if not places:
        return
    schema, way = _at(definition, chance.choice(places)), chance.random()
    if way < 0.3:
        schema["x-kubernetes-validations"] = [_rule(chance) for _ in range(chance.choice((1, 1, 2)))]
    elif way < 0.75:
        key = chance.choice(list(_PARTS["keywords"]))
        schema[key] = copy.deepcopy(chance.choice(_PARTS["keywords"][key]))
    elif way < 0.85 and isinstance(schema.setdefault("properties", {}), dict):
        name = chance.choice(("a", "b", "size", "metadata", "spec", "apiVersion", "x-y"))
        schema["properties"][name] = copy.deepcopy(chance.choice(_PARTS["schemas"]))
    elif way < 0.95:
        other = copy.deepcopy(chance.choice(_PARTS["schemas"]))
        schema.clear()
        schema.update(other)
    elif schema:
        del schema[chance.choice(list(schema))]


def _changed(chance: random.Random) -> Object:
    definition: Object = copy.deepcopy(chance.choice(_PARTS["definitions"]))
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3))):
        if chance.random() < 0.7:
            _change(chance, definition)
        elif places := [place for place in changeable(definition) if "openAPIV3Schema" not in place]:
            mutate(chance, definition, places)
    return definition


def _sequence() -> list[Step]:
    chance = random.Random("definitions")
    objects = [*_PARTS["definitions"], *(_changed(chance) for _ in range(_COUNT))]
    return [post(CRDS, obj, dryRun="All", **chance.choice(_VALIDATION)) for obj in objects]


DEFINITION_MUTATIONS = {"mutations of definitions": _sequence()}
