"""What would become of manifests, as values: what a server refuses, and what would go wrong where it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from trainshed.cluster.images.directories import Image
from trainshed.findings import Severity
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, name_of, namespace_of
from trainshed.sdk import offline
from trainshed.sdk import state as jobstate
from trainshed.sdk.errors import Explanation, UserError, explain
from trainshed.sdk.fieldnames import unknown_fields
from trainshed.sdk.foresight.findings import Finding
from trainshed.sdk.foresight.foresee import of_object
from trainshed.sdk.foresight.world import World

if TYPE_CHECKING:
    from trainshed.client.client import Client


class NotHonoured(msgspec.Struct, frozen=True):
    """A field that is accepted and has no effect here: its path, and why."""

    path: str
    why: str


class Verdict(msgspec.Struct, frozen=True):
    """What would become of one object.

    `refusal` is None when the server takes it; `causes` are what is wrong then, a line each. `warnings` are the
    server's, `findings` what is foreseen of an object that is taken.
    """

    kind: str
    name: str
    refusal: Explanation | None = None
    causes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    namespace: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the server would take the object."""
        return self.refusal is None

    @property
    def can_start(self) -> bool:
        """Whether the object is taken and nothing is known that keeps its pods from starting."""
        return self.accepted and all(f.severity != Severity.ERROR for f in self.findings)

    @property
    def not_honoured(self) -> tuple[NotHonoured, ...]:
        """The fields that are taken and have no effect on this machine."""
        return tuple(NotHonoured(f.path, f.message) for f in self.findings if f.code == "TS501")


async def examine(
    client: Client,
    objects: Sequence[Object],
    *,
    local: bool,
    images: Mapping[str, Image] | None = None,
) -> list[Verdict]:
    """Return a verdict on each object, changing nothing; `local` also asks what this machine cannot honour.

    `images` are those that are registered on this machine.
    """
    from trainshed.sdk.apply import RestMapper, try_one
    from trainshed.sdk.foresight.gather import of_cluster

    world = (await of_cluster(client, objects, (images or {}) if local else None)).with_objects(objects)
    kinds = RestMapper(client)
    verdicts = []
    for obj in objects:
        try:
            await try_one(client, await kinds.resource(obj), obj)
            jobstate.require_replicas(obj)
            warnings = offline.warnings_of(obj, world.operator)
        except (ApiError, UserError) as error:
            verdicts.append(_refused(obj, error, world))
        else:
            verdicts.append(_accepted(obj, warnings, world))
    return verdicts


def examine_offline(objects: Sequence[Object], world: World) -> list[Verdict]:
    """Return a verdict on each object without a server. What nobody knows without one is not said."""
    whole = world.with_objects(objects)
    verdicts = []
    for obj in objects:
        try:
            jobstate.require_replicas(obj)
            warnings = offline.judge(obj, world.namespace, world.operator)
        except (ApiError, UserError) as error:
            verdicts.append(_refused(obj, error, whole))
        else:
            verdicts.append(_accepted(obj, warnings, whole))
    return verdicts


def _accepted(obj: Object, warnings: tuple[str, ...], world: World) -> Verdict:
    return Verdict(
        obj["kind"],
        name_of(obj),
        warnings=warnings,
        findings=tuple(of_object(obj, world)),
        namespace=namespace_of(obj),
    )


def _refused(obj: Object, error: ApiError | UserError, world: World) -> Verdict:
    refusal = explain(error)
    assert refusal is not None
    namespace = namespace_of(obj) or world.namespace
    causes = _causes(obj, error)
    hint = refusal.hint
    if isinstance(error, ApiError) and error.code == 404 and world.is_missing("Namespace", "", namespace):
        hint = f"kubectl create namespace {namespace}"
    elif isinstance(error, ApiError) and causes:
        hint = ""  # they say more
    # Of the jobs of a file the verdict names each already.
    message = refusal.message.removeprefix(f"{obj['kind']} {name_of(obj)}: ")
    refusal = msgspec.structs.replace(refusal, message=message, hint=hint)
    return Verdict(obj["kind"], name_of(obj), refusal, causes, namespace=namespace_of(obj))


def _causes(obj: Object, error: ApiError | UserError) -> tuple[str, ...]:
    """Return what is wrong, a line each; empty where the message alone says it."""
    found = unknown_fields(str(error), offline.schema_of(obj))
    if not found and isinstance(error, ApiError):
        found = [
            c.message if not c.field or c.field in c.message else f"{c.field}: {c.message}"
            for c in error.causes
        ]
    return tuple(dict.fromkeys(found))
