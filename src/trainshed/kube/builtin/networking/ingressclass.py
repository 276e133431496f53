"""IngressClasses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import NONE, Columns, age, define
from trainshed.kube.builtin.parts.references import prefixed_path_causes, typed_reference_causes
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, spec_of
from trainshed.kube.meta.resources import Resource

_CONTROLLER_MAX = 250
_SCOPES = ("Cluster", "Namespace")


def _defaults(obj: Object) -> None:
    parameters = spec_of(obj).get("parameters")
    if parameters is not None:
        parameters.setdefault("scope", "Cluster")


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with an IngressClass.

    Source of rules and texts: `pkg/apis/networking/validation/validation.go` of Kubernetes.
    """
    spec = spec_of(obj)
    controller = spec.get("controller") or ""
    if old is not None and controller != (spec_of(old).get("controller") or ""):
        yield causes.invalid("spec.controller", controller, "field is immutable")
    if not controller:
        yield causes.required("spec.controller")
    else:
        if len(controller) > _CONTROLLER_MAX:
            yield causes.too_long("spec.controller", _CONTROLLER_MAX)
        yield from prefixed_path_causes(controller, "spec.controller")
    parameters = spec.get("parameters")
    if parameters is None:
        return
    at = "spec.parameters"
    yield from typed_reference_causes(parameters, at)
    scope, namespace = parameters["scope"], parameters.get("namespace")
    if scope not in _SCOPES:
        yield causes.unsupported(f"{at}.scope", scope, _SCOPES)
    elif scope == "Cluster" and namespace is not None:
        yield causes.forbidden(f"{at}.namespace", "`parameters.scope` is set to 'Cluster'")
    elif scope == "Namespace" and namespace is None:
        yield causes.required(f"{at}.namespace", "`parameters.scope` is set to 'Namespace'")
    elif scope == "Namespace":
        for why in names.dns_label(namespace):
            yield causes.invalid(f"{at}.namespace", namespace, why)


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
    defaults=_defaults,
    check=_check,
    columns=Columns(define("Name, Controller, Parameters, Age"), _row),
)
