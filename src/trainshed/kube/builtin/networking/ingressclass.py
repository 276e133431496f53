"""IngressClasses."""

from __future__ import annotations

from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import NONE, Columns, age, define
from trainshed.kube.meta.objects import Object, name_of, spec_of
from trainshed.kube.meta.resources import Resource


def _row(obj: Object, now: float) -> list[Any]:
    parameters = spec_of(obj).get("parameters")
    text = NONE
    if parameters:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
        text = f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"
    return [name_of(obj), spec_of(obj).get("controller", ""), text, age(obj, now)]


KIND = Builtin(
    info=row(
        Resource("networking.k8s.io", "v1", "ingressclasses", "IngressClass", namespaced=False),
        generation=True,
    ),
    columns=Columns(define("Name, Controller, Parameters, Age"), _row),
)
