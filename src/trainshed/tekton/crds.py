"""Tekton's CustomResourceDefinitions, in the shape in which Tekton installs them; for clusters that have none.

Both versions are stored as v1; the API server translates by `versions`.
The schemas accept whatever Tekton's webhook accepts; what is wrong with a run is said in its condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import Resource
from trainshed.tekton.resources import CUSTOMRUNS, PIPELINERUNS, PIPELINES, STEPACTIONS, TASKRUNS, TASKS

STAND_IN = "trainshed.dev/stands-in"
"""Label of a definition that makes room for one that the user installs."""
LABELS = {"app.kubernetes.io/part-of": "tekton-pipelines", STAND_IN: "true"}
_FREE: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _column(name: str, path: str, type_: str = "string") -> Object:
    return {"name": name, "type": type_, "jsonPath": path}


_RUN_COLUMNS = (
    _column("Succeeded", '.status.conditions[?(@.type=="Succeeded")].status'),
    _column("Reason", '.status.conditions[?(@.type=="Succeeded")].reason'),
    _column("StartTime", ".status.startTime", "date"),
    _column("CompletionTime", ".status.completionTime", "date"),
)


def _crd(
    resource: Resource,
    versions: Sequence[str],
    *,
    short: Sequence[str] = (),
    columns: Sequence[Object] = (),
) -> Object:
    schema: Any = {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": _FREE,
            "status": _FREE,
        },
    }
    served: list[Object] = []
    for version in versions:
        one: Object = {
            "name": version,
            "served": True,
            "storage": version == resource.version,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
        }
        if columns:
            one["additionalPrinterColumns"] = list(columns)
        served.append(one)
    names: Object = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
        "categories": ["tekton", "tekton-pipelines"],
    }
    if short:
        names["shortNames"] = list(short)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}", "labels": LABELS},
        "spec": {"group": resource.group, "names": names, "scope": "Namespaced", "versions": served},
    }


def crds() -> list[Object]:
    """Return the definitions of all kinds that are served."""
    both = ("v1beta1", "v1")
    return [
        _crd(PIPELINES, both),
        _crd(PIPELINERUNS, both, short=("pr", "prs"), columns=_RUN_COLUMNS),
        _crd(TASKS, both),
        _crd(TASKRUNS, both, short=("tr", "trs"), columns=_RUN_COLUMNS),
        _crd(CUSTOMRUNS, ("v1beta1",), columns=_RUN_COLUMNS),
        _crd(STEPACTIONS, ("v1alpha1", "v1beta1"), short=("stepact",)),
    ]
