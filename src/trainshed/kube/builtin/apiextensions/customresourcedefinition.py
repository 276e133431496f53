"""CustomResourceDefinitions; what they define is in `kube.schema.crd`."""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CRDS


def _defaults(obj: Object) -> None:
    from trainshed.kube.schema.crd import crd_defaults

    crd_defaults(obj)


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    from trainshed.kube.schema.crd import stored_versions_causes, validate_crd

    yield from validate_crd(obj, old)
    if subresource == "status":
        yield from stored_versions_causes(obj)


KIND = Builtin(
    info=row(
        CRDS,
        "crd crds",
        categories=("api-extensions",),
        subresources=STATUS,
        unconditional_update=False,
        generation=True,
    ),
    does="served at once: schema, defaults, pruning, CEL, columns, status and scale; versions converted by webhooks",
    defaults=_defaults,
    check=_check,
)
