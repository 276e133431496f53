"""The ledger of what is served tells the truth: each call that Kubernetes serves is made."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from tests.cluster.api_world import World
from trainshed.client.transport import Response
from trainshed.cluster.apiserver.dispatch import is_handled
from trainshed.kube.meta.resources import Resource
from trainshed.kube.served import ledger
from trainshed.kube.served.ledger import Call

METHODS = {
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
    "get": "GET",
    "list": "GET",
}
UNKNOWN = "the server could not find the requested resource"


def path_of(call: Call) -> str:
    """Return where a call goes; names are of objects that do not exist."""
    resource = Resource(call.group, call.version, call.plural, "", call.namespaced)
    collection = call.verb in ("list", "watch", "create", "deletecollection") and not call.subresource
    return resource.path(
        "ledger" if call.namespaced else None, None if collection else "none", call.subresource
    )


async def made(world: World, call: Call) -> tuple[int, Any]:
    """Return the code of the answer to a call, and its Status if it has one."""
    path = path_of(call)
    if call.verb == "watch":
        async with world.lines(path) as lines:
            return lines.status, None
    patch = {"content_type": "application/merge-patch+json"} if call.verb == "patch" else {}
    body: Any = {} if call.verb in ("create", "update", "patch") else None
    answer: Response = await world.raw(METHODS[call.verb], path, body, **patch)
    try:
        return answer.status, json.loads(answer.body)
    except ValueError:
        return answer.status, None


async def test_each_call_is_answered_as_the_ledger_says(world: World) -> None:
    wrong: list[str] = []
    await world.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "ledger"}})
    for call in ledger.calls(is_handled):
        code, answer = await made(world, call)
        message = answer.get("message", "") if isinstance(answer, dict) else ""
        unserved = code in (405, 501) or (code == 404 and (answer is None or message == UNKNOWN))
        if call.state == "REFUSED":
            fits = (
                code == 501
                and answer["kind"] == "Status"
                and answer["reason"] == "NotImplemented"
                and message
            )
        elif call.state == "ABSENT":
            fits = code == 404 and unserved
        else:
            fits = not unserved and code != 500
        if not fits:
            wrong.append(f"{call.state} {call.verb} {path_of(call)}: {code} {message}")
    assert not wrong, "\n".join(wrong)


def test_the_ledger_knows_every_kind() -> None:
    counted = Counter(call.state for call in ledger.calls(is_handled))
    assert set(counted) == {"SHIPPED", "PARTIAL", "REFUSED"}, "nothing that Kubernetes serves is absent"
    assert {info.resource.group_resource for info in ledger.extra()} == {
        "selfsubjectreviews.authentication.k8s.io",
        "nodes.metrics.k8s.io",
        "pods.metrics.k8s.io",
    }
    named = {(one.group, one.version, one.plural): one for one in ledger.upstream()}
    for kind in ledger.BUILTINS:
        resource = kind.info.resource
        one = named.get((resource.group, resource.version, resource.plural))
        if one is not None:
            assert (one.kind, one.namespaced) == (resource.kind, resource.namespaced)
            assert set(kind.info.verbs) == set(one.verbs[""]), resource
            assert {name: set(sub.verbs) for name, sub in kind.info.subresources.items()} == {
                name: set(verbs) for name, verbs in one.verbs.items() if name
            }, resource
        assert kind.does or not kind.lacks, f"{resource}: what is only stored lacks everything"
