"""ValidatingAdmissionPolicies are checked against the schemas of the kinds that they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.kube.meta.objects import Object, section, spec_of

if TYPE_CHECKING:
    from trainshed.kube.cel.types import Type


async def admit(core: Core, call: Call, obj: Object) -> Object:
    """Return a policy that is created with what is said of its types."""
    return _checked(core, obj, 1)


def admit_update(core: Core, call: Call, old: Object, new: Object) -> Object:
    """Return a policy with what is said of its types, if it changes."""
    if spec_of(old) == spec_of(new):
        return new
    return _checked(core, new, int(old["metadata"].get("generation") or 0) + 1)


def _checked(core: Core, obj: Object, generation: int) -> Object:
    from trainshed.kube.policy.typechecking import (  # the language is loaded with the first policy
        KindType,
        named_kinds,
        warnings,
    )
    from trainshed.kube.schema.celtypes import type_of

    kinds = []
    for group, version, plural in sorted(named_kinds(obj)):
        served = core.kinds.get(group, version, plural)
        if served is not None:
            resource = served.resource
            kinds.append(KindType(resource.api_version, resource.kind, type_of(served.schema)))
    said = warnings(obj, kinds, _params(core, obj))
    checked: Object = {"expressionWarnings": said} if said else {}
    return {
        **obj,
        "status": {**section(obj, "status"), "observedGeneration": generation, "typeChecking": checked},
    }


def _params(core: Core, policy: Object) -> Type | None:
    from trainshed.kube.schema.celtypes import type_of

    kind = section(spec_of(policy), "paramKind")
    for info in core.kinds.registry:
        if info.resource.api_version == kind.get("apiVersion") and info.resource.kind == kind.get("kind"):
            return type_of(core.kinds.of(info.resource).schema)
    return None
