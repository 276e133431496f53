"""What would become of manifests, as values: what the server refuses, and what this machine cannot honour."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainshed.client.client import Client
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, name_of, section, spec_of
from trainshed.sdk import state as jobstate
from trainshed.sdk.apply import Kinds, try_one
from trainshed.sdk.errors import Explanation, UserError, explain

_WITH_PODS = ("v1", "apps/v1", "batch/v1")
"""Where a `template` is a pod's, in a shape that the server has checked."""


class NotHonoured(msgspec.Struct, frozen=True):
    """A field that is accepted and has no effect here: its path, and why."""

    path: str
    why: str


class Verdict(msgspec.Struct, frozen=True):
    """What would become of one object. `refusal` is None when the server takes it."""

    kind: str
    name: str
    refusal: Explanation | None = None
    not_honoured: tuple[NotHonoured, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether the server would take the object."""
        return self.refusal is None


async def examine(client: Client, objects: Sequence[Object], *, local: bool) -> list[Verdict]:
    """Return a verdict on each object, changing nothing; `local` also asks what this machine cannot honour."""
    kinds = Kinds(client)
    return [await _verdict(client, kinds, obj, local=local) for obj in objects]


async def _verdict(client: Client, kinds: Kinds, obj: Object, *, local: bool) -> Verdict:
    try:
        await try_one(client, await kinds.resource(obj), obj)
        jobstate.require_replicas(obj)
    except (ApiError, UserError) as error:
        refusal = explain(error)
        assert refusal is not None
        return Verdict(obj["kind"], name_of(obj), refusal)
    return Verdict(obj["kind"], name_of(obj), None, tuple(not_honoured(obj)) if local else ())


def not_honoured(obj: Object) -> list[NotHonoured]:
    """Return the fields of an object, which the server takes, that this machine cannot honour."""
    from trainshed.cluster.node.pod.unsupported import local_capabilities, unsupported_fields
    from trainshed.cluster.scheduler.placement import UNREGARDED, unregarded_fields

    capabilities = local_capabilities()
    found = []
    for path, template in _pod_templates(obj):
        findings = unsupported_fields(template, capabilities)
        findings += [(field, UNREGARDED) for field in unregarded_fields(template)]
        found += [NotHonoured(path + field, why) for field, why in findings]
    return found


def _pod_templates(obj: Object) -> list[tuple[str, Object]]:
    """Return the pods in the object with the path that leads to each."""
    if not (obj["apiVersion"] in _WITH_PODS or jobstate.is_of_training(obj)):
        return []
    if obj["kind"] == "Pod":
        return [("", obj)]
    found = [
        (f"{field}[{kind}].template.", spec["template"])
        for field, specs in spec_of(obj).items()
        if field.endswith("ReplicaSpecs") and jobstate.replica_specs(obj) is specs
        for kind, spec in specs.items()
        if isinstance(spec, dict) and isinstance(spec.get("template"), dict)
    ]
    spec = spec_of(obj)
    others = {
        "spec.template.": spec.get("template"),
        "spec.jobTemplate.spec.template.": section(spec, "jobTemplate", "spec").get("template"),
    }
    return [
        *((f"spec.{path}", t) for path, t in found),
        *((path, t) for path, t in others.items() if isinstance(t, dict)),
    ]
