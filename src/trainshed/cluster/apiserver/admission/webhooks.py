"""Admission webhooks are called: mutating ones one after the other, validating ones together."""

from __future__ import annotations

import asyncio
import uuid
from typing import TypeAlias

import msgspec

from trainshed.cluster.apiserver.access import User
from trainshed.cluster.apiserver.callbacks import call as call_out
from trainshed.cluster.apiserver.conversion import translated
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.kinds import ServedKind
from trainshed.cluster.apiserver.reviews import attributes_of
from trainshed.cluster.store import keys
from trainshed.kube.meta.errors import forbidden, internal
from trainshed.kube.meta.objects import Object, labels_of
from trainshed.kube.meta.resources import MUTATINGWEBHOOKS, NAMESPACES, VALIDATINGWEBHOOKS, Resource
from trainshed.kube.policy import webhooks
from trainshed.kube.policy.webhookanswers import Verdict, patched, verdict
from trainshed.kube.policy.webhooks import Admitted, Hook
from trainshed.kube.wire.options import DeleteOptions

Chosen: TypeAlias = tuple[Hook, str]
"""A webhook, and the version in which it wants to see the object."""


def exist(core: Core, resource: Resource) -> bool:
    """Return whether there are any webhooks of a sort."""
    return bool(core.store.list(keys.under(resource))[0])


def asked(
    core: Core,
    call: Call,
    obj: Object | None,
    old: Object | None,
    *,
    subresource: str,
    dry_run: bool,
    deletion: DeleteOptions | None = None,
    kind: tuple[str, str, str] | None = None,
    connects: bool = False,
) -> Admitted:
    """Return the request as admission sees it.

    Args:
        deletion: the options of a DELETE.
        kind: group, version and kind of the object, where it is of another one than the resource.
        connects: the object is what a CONNECT asks for.
    """
    namespace = call.route.namespace or ""
    resource = call.kind.resource
    if resource == NAMESPACES:
        namespace = call.route.name
    stored = core.store.get(keys.of(NAMESPACES, None, namespace)) if namespace else None
    operation = "DELETE" if deletion is not None else "CREATE" if old is None else "UPDATE"
    held = {} if obj is None else obj.get("metadata") or {}
    return Admitted(
        resource=resource,
        subresource=subresource,
        operation="CONNECT" if connects else operation,
        name=call.route.name or str(held.get("name") or ""),
        namespace=namespace,
        object=obj,
        old=old,
        user=call.user.as_object(),
        options=None if connects else _options(call, operation, deletion),
        dry_run=dry_run,
        namespace_labels=labels_of(stored.obj) if stored is not None else {},
        asks=lambda user, spec: core.authorizer.authorize(attributes_of(_user(user), spec)),
        kind=kind,
        others=_other_versions(core, resource),
    )


def _options(call: Call, operation: str, deletion: DeleteOptions | None) -> Object:
    named: Object = {"kind": f"{operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"}
    if deletion is not None:
        return {**deletion.encode(), **named}
    query = call.request.query
    for field in ("fieldManager", "fieldValidation"):
        if query.get(field, [""])[0]:
            named[field] = query[field][0]
    if "All" in query.get("dryRun", ()):
        named["dryRun"] = ["All"]
    return named


def _other_versions(core: Core, resource: Resource) -> tuple[str, ...]:
    found = (info.resource for info in core.kinds.registry)
    return tuple(
        other.version
        for other in found
        if (other.group, other.plural) == (resource.group, resource.plural)
        and other.version != resource.version
    )


def _user(info: Object) -> User:
    return User(str(info.get("username", "")), tuple(info.get("groups") or ()))


def _chosen(core: Core, resource: Resource, request: Admitted) -> list[Chosen]:
    found = [stored.obj for stored in core.store.list(keys.under(resource))[0]]
    versions = ((hook, webhooks.concerns(hook, request)) for hook in webhooks.hooks_of(found))
    return [(hook, version) for hook, version in versions if version is not None]


async def mutate(core: Core, call: Call, request: Admitted) -> Object | None:
    """Return the object as the mutating webhooks want it. Raises `ApiError` as one refuses, or cannot be asked.

    Those that ask for reinvocation are asked once more where a later one has changed what they saw.
    """
    obj, first = request.object, _chosen(core, MUTATINGWEBHOOKS, request)
    seen: dict[int, Object | None] = {}
    for number, chosen in enumerate(first):
        obj = seen[number] = await _changed(core, call, chosen, request, obj)
    for number, chosen in enumerate(first):
        if chosen[0].spec.get("reinvocationPolicy") == "IfNeeded" and seen[number] != obj:
            obj = await _changed(core, call, chosen, request, obj)
    return obj


async def _changed(
    core: Core, call: Call, chosen: Chosen, request: Admitted, obj: Object | None
) -> Object | None:
    hook, version = chosen
    shown = await in_version(core, call, msgspec.structs.replace(request, object=obj), version)
    answer = await _ask(core, call, hook, shown, mutating=True)
    if answer is None or not answer.patch or answer.patch.strip() == b"[]":
        return obj
    if shown.object is None:
        why = "attempted to modify the object, which is not supported for this operation"
        raise internal(f'admission webhook "{hook.name}" {why}')
    changed = patched(shown.object, answer.patch)
    other = _served_as(core, request, version)
    return changed if other is None else await translated(core, other, call.kind, changed)


async def validate(core: Core, call: Call, request: Admitted) -> None:
    """Ask the validating webhooks. Raises `ApiError` as the first of them refuses, or cannot be asked."""
    found = _chosen(core, VALIDATINGWEBHOOKS, request)
    if not found:
        return

    async def ask(chosen: Chosen) -> None:
        hook, version = chosen
        await _ask(core, call, hook, await in_version(core, call, request, version), mutating=False)

    answers = await asyncio.gather(*map(ask, found), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer


async def in_version(core: Core, call: Call, request: Admitted, version: str) -> Admitted:
    """Return a request with its objects in another version. Raises `ApiError` 500: they cannot be converted."""
    if version == request.resource.version:
        return request
    other = _served_as(core, request, version)
    if other is None:
        return msgspec.structs.replace(request, seen_as=version)
    objects = [
        None if obj is None else await translated(core, call.kind, other, obj)
        for obj in (request.object, request.old)
    ]
    return msgspec.structs.replace(request, object=objects[0], old=objects[1], seen_as=version)


def _served_as(core: Core, request: Admitted, version: str) -> ServedKind | None:
    """Return the kind of a resource in another version; None where that is its own, or its objects have none."""
    if version == request.resource.version or request.kind is not None:
        return None
    return core.kinds.get(request.resource.group, version, request.resource.plural)


async def _ask(core: Core, call: Call, hook: Hook, request: Admitted, *, mutating: bool) -> Verdict | None:
    """Return what a webhook says; None where its conditions leave the request out, or its failure is ignored."""
    try:
        if webhooks.unmatched(hook, request):
            return None
    except ValueError as error:
        if hook.ignores_failures:
            return None
        resource = request.resource
        raise forbidden(resource.plural, resource.group, request.name or "Unknown", str(error)) from error
    if request.dry_run and not webhooks.is_safe(hook):
        raise webhooks.refuses_dry_run(hook)
    uid = str(uuid.uuid4())
    review = msgspec.json.encode(webhooks.review_of(hook, request, uid))
    try:
        try:
            body = await call_out(core, hook.spec["clientConfig"], review, hook.seconds)
        except ConnectionError as error:
            raise ValueError(f"failed to call webhook: {error}") from error
        answer = verdict(hook.name, body, uid, version=webhooks.version_of(hook), mutating=mutating)
    except ValueError as error:
        if hook.ignores_failures:
            return None
        raise webhooks.failed(hook, str(error)) from error
    for text in answer.warnings:
        call.request.warn(text)
    for key, value in answer.annotations.items():
        call.request.annotate(key, value)
    if answer.refusal is not None:
        raise answer.refusal
    return answer
