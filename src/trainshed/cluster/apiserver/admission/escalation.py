"""Roles and bindings: nobody grants what they do not hold themselves.

Whoever may `escalate` a role may write any rules in it; whoever may `bind` one may bind it without holding it.
Members of `system:masters` hold everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from trainshed.cluster.apiserver.core import Call, Core
from trainshed.kube.meta.errors import forbidden, not_found
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.resources import CLUSTERROLEBINDINGS, CLUSTERROLES, ROLEBINDINGS, ROLES
from trainshed.kube.policy.attributes import Attributes
from trainshed.kube.served.escalation import (
    EVERYTHING,
    MAX_RIGHTS,
    Rule,
    TooManyRights,
    missing,
    refusal,
    rights,
)
from trainshed.kube.served.rbac import MASTERS

_ROLES = frozenset({ROLES, CLUSTERROLES})
_BINDINGS = frozenset({ROLEBINDINGS, CLUSTERROLEBINDINGS})
_COLLECTED = frozenset({"finalizers", "ownerReferences", "managedFields", "resourceVersion"})
"""Metadata that garbage collectors and finalizers' owners change."""


_APART_FROM_RIGHTS = 500
"""Comparing takes 10 ms from here on, with a hundred rules that are held."""


async def check_grants(core: Core, call: Call, new: Object, old: Object | None) -> None:
    """Check who writes `new`, a valid object.

    Raises:
        ApiError: 403 when it grants what they may not grant, 404 when it binds a role that does not exist.
    """
    resource = call.kind.resource
    if resource not in _ROLES and resource not in _BINDINGS:
        return
    if MASTERS in call.user.groups or (
        old is not None and _without_collected(old) == _without_collected(new)
    ):
        return
    if resource in _ROLES:
        await _check_role(core, call, new, old)
    else:
        await _check_binding(core, call, new)


async def _check_role(core: Core, call: Call, new: Object, old: Object | None) -> None:
    resource = call.kind.resource
    if _may(core, call, "escalate", resource.plural, call.route.name):
        return
    await _check_held(core, call, new, new.get("rules") or ())
    aggregates = new.get("aggregationRule") or (old or {}).get("aggregationRule")
    if aggregates and await _lacking(core, call, EVERYTHING):
        why = "must have cluster-admin privileges to use the aggregationRule"
        raise forbidden(resource.plural, resource.group, new["metadata"]["name"], why)


async def _check_binding(core: Core, call: Call, new: Object) -> None:
    role = section(new, "roleRef")
    bound = ROLES if role["kind"] == ROLES.kind else CLUSTERROLES
    if _may(core, call, "bind", bound.plural, role["name"]):
        return
    rules = core.authorizer.role_rules(call.route.namespace or "" if bound == ROLES else "", role["name"])
    if rules is None:
        raise not_found(call.kind.resource.plural, bound.group, role["name"])
    await _check_held(core, call, new, rules)


async def _check_held(core: Core, call: Call, new: Object, rules: Sequence[Rule]) -> None:
    resource, user = call.kind.resource, call.user
    try:
        lacking = await _lacking(core, call, rules)
    except TooManyRights:
        why = f"its rules come to more than {MAX_RIGHTS} combinations to compare with those held: make several roles"
        raise forbidden(resource.plural, resource.group, new["metadata"]["name"], why) from None
    if lacking:
        why = refusal(user.username, user.groups, lacking)
        raise forbidden(resource.plural, resource.group, new["metadata"]["name"], why)


async def _lacking(core: Core, call: Call, rules: Sequence[Rule]) -> list[str]:
    status = core.authorizer.rules(call.user, call.route.namespace or "")
    held = [*status["resourceRules"], *status["nonResourceRules"]]
    compare = partial(missing, held, rules)
    return compare() if rights(rules) < _APART_FROM_RIGHTS else await call.request.in_turn(compare)


def _may(core: Core, call: Call, verb: str, plural: str, name: str) -> bool:
    asked = Attributes(
        user=call.user.username,
        groups=call.user.groups,
        verb=verb,
        group=ROLES.group,
        resource=plural,
        namespace=call.route.namespace or "",
        name=name,
    )
    return core.authorizer.authorize(asked)[0]


def _without_collected(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _COLLECTED}
    return {**obj, "metadata": metadata}
