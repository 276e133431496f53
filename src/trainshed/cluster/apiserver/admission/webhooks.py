"""Admission webhooks are called: mutating ones one after the other, validating ones together."""

from __future__ import annotations

import asyncio
import uuid

import msgspec

from trainshed.cluster.apiserver.access import User
from trainshed.cluster.apiserver.callbacks import call as call_out
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.reviews import attributes_of
from trainshed.cluster.store import keys
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, labels_of
from trainshed.kube.meta.resources import MUTATINGWEBHOOKS, NAMESPACES, VALIDATINGWEBHOOKS, Resource
from trainshed.kube.policy import webhooks
from trainshed.kube.policy.webhooks import Admitted, Hook, Verdict


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
    name: str = "",
) -> Admitted:
    """Return the request as admission sees it."""
    namespace = call.route.namespace or ""
    stored = core.store.get(keys.of(NAMESPACES, None, namespace)) if namespace else None
    operation = "DELETE" if obj is None else "CREATE" if old is None else "UPDATE"
    held = obj or old or {"metadata": {}}
    return Admitted(
        resource=call.kind.resource,
        subresource=subresource,
        operation=operation,
        name=name or str(held["metadata"].get("name", "")),
        namespace=namespace,
        object=obj,
        old=old,
        user=call.user.as_object(),
        options={"apiVersion": "meta.k8s.io/v1", "kind": f"{operation.capitalize()}Options"},
        dry_run=dry_run,
        namespace_labels=labels_of(stored.obj) if stored is not None else {},
        asks=lambda user, spec: core.authorizer.authorize(attributes_of(_user(user), spec)),
    )


def _user(info: Object) -> User:
    return User(str(info.get("username", "")), tuple(info.get("groups") or ()))


def _hooks(core: Core, resource: Resource, request: Admitted) -> list[Hook]:
    found = [stored.obj for stored in core.store.list(keys.under(resource))[0]]
    return [hook for hook in webhooks.hooks_of(found) if webhooks.concerns(hook, request)]


async def mutate(core: Core, call: Call, request: Admitted) -> Object:
    """Return the object as the mutating webhooks want it. Raises `ApiError` as one refuses, or cannot be asked.

    Those that ask for reinvocation are asked once more where a later one has changed what they saw.
    """
    assert request.object is not None
    obj, first = request.object, _hooks(core, MUTATINGWEBHOOKS, request)
    seen: dict[int, Object] = {}
    for number, hook in enumerate(first):
        obj = seen[number] = await _changed(core, call, hook, request, obj)
    for number, hook in enumerate(first):
        if hook.spec.get("reinvocationPolicy") == "IfNeeded" and seen[number] != obj:
            obj = await _changed(core, call, hook, request, obj)
    return obj


async def _changed(core: Core, call: Call, hook: Hook, request: Admitted, obj: Object) -> Object:
    answer = await _ask(core, call, hook, msgspec.structs.replace(request, object=obj))
    return obj if answer is None or answer.patch is None else webhooks.patched(obj, answer.patch)


async def validate(core: Core, call: Call, request: Admitted) -> None:
    """Ask the validating webhooks. Raises `ApiError` as the first of them refuses, or cannot be asked."""
    found = _hooks(core, VALIDATINGWEBHOOKS, request)
    if not found:
        return
    answers = await asyncio.gather(
        *(_ask(core, call, hook, request) for hook in found), return_exceptions=True
    )
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer


async def _ask(core: Core, call: Call, hook: Hook, request: Admitted) -> Verdict | None:
    """Return what a webhook says; None where its conditions leave the request out, or its failure is ignored."""
    try:
        if webhooks.unmatched(hook, request):
            return None
    except ValueError as error:
        if hook.ignores_failures:
            return None
        raise ApiError(403, "Forbidden", f'{error} of admission webhook "{hook.name}"') from error
    if request.dry_run and not webhooks.is_safe(hook):
        raise webhooks.refuses_dry_run(hook)
    uid = str(uuid.uuid4())
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": webhooks.request_of(request, uid),
    }
    try:
        body = await call_out(core, hook.spec["clientConfig"], msgspec.json.encode(review), hook.seconds)
        answer = webhooks.verdict(hook, body, uid)
    except (ConnectionError, ValueError) as error:
        if hook.ignores_failures:
            return None
        raise webhooks.unreachable(hook, f"failed to call webhook: {error}") from error
    for text in answer.warnings:
        call.request.warn(text)
    for key, value in answer.annotations.items():
        call.request.annotate(key, value)
    if answer.refusal is not None:
        raise answer.refusal
    return answer
