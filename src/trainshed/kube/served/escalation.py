"""Privilege escalation: whether the rules that somebody holds cover those that they are about to grant.

A rule is covered when each of its combinations (verb, group, resource, name; verb, path) is, each by one rule that
is held: two rules that only together make a combination do not cover it.

Source: "Privilege escalation prevention and bootstrapping" of the API reference "Using RBAC Authorization".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

Rule: TypeAlias = Mapping[str, Any]
_ALL = "*"
EVERYTHING: tuple[Rule, ...] = (
    {"apiGroups": [_ALL], "resources": [_ALL], "verbs": [_ALL]},
    {"nonResourceURLs": [_ALL], "verbs": [_ALL]},
)
"""What cluster-admin may do, and what an aggregation could come to."""


class _Right(msgspec.Struct, frozen=True):
    """One combination of a rule: of a resource, or of a path. `name` empty means all of them."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str = ""
    path: str = ""


MAX_RIGHTS = 20_000
"""Combinations of the rules of a role, those aside that one rule covers whole, that are compared with what is held."""


class TooManyRights(Exception):
    """The rules come to more than `MAX_RIGHTS` combinations."""


def rights(wanted: Iterable[Rule]) -> int:
    """Return how many combinations the rules come to, repeated ones counted each time."""
    return sum(map(_count, wanted))


def _count(rule: Rule) -> int:
    groups, resources, names, paths = (
        len(rule.get(field) or ()) for field in ("apiGroups", "resources", "resourceNames", "nonResourceURLs")
    )
    return len(rule.get("verbs") or ()) * (paths + groups * resources * max(names, 1))


def missing(held: Iterable[Rule], wanted: Iterable[Rule]) -> list[str]:
    """Return what `wanted` grants beyond `held`, as Kubernetes prints rules, sorted; empty when all is covered.

    Raises:
        TooManyRights: a few lines of verbs, groups, resources and names come to more combinations than can be compared.
    """
    rules = list(held)
    rest = [rule for rule in wanted if not any(_covers_whole(one, rule) for one in rules)]
    if rights(rest) > MAX_RIGHTS:
        raise TooManyRights
    verbs: dict[_Right, list[str]] = {}
    for right in dict.fromkeys(right for rule in rest for right in _rights(rule)):
        if not any(_covers(rule, right) for rule in rules):
            # Upstream joins the verbs of one resource, not those of one path.
            place = right if right.path else msgspec.structs.replace(right, verb="")
            verbs.setdefault(place, []).append(right.verb)
    return sorted(_shown(place, found) for place, found in verbs.items())


def refusal(user: str, groups: Sequence[str], lacking: Sequence[str]) -> str:
    """Return the text of the 403 for rights that the user does not hold."""
    return (
        f"user {json.dumps(user)} (groups={_quoted(groups)}) is attempting to grant RBAC permissions not currently"
        " held:\n" + "\n".join(lacking)
    )


def _rights(rule: Rule) -> Iterator[_Right]:
    for verb in rule.get("verbs") or ():
        for path in rule.get("nonResourceURLs") or ():
            yield _Right(verb, path=path)
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for verb in rule.get("verbs") or ():
                for name in rule.get("resourceNames") or ("",):
                    yield _Right(verb, group, resource, name)


def _covers(rule: Rule, right: _Right) -> bool:
    if not _has(rule.get("verbs"), right.verb):
        return False
    if right.path:
        return any(_covers_path(pattern, right.path) for pattern in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames")
    if names and right.name not in names:
        return False
    return _has(rule.get("apiGroups"), right.group) and _covers_resource(
        rule.get("resources") or (), right.resource
    )


def _covers_whole(held: Rule, rule: Rule) -> bool:
    """Return whether one rule that is held covers each combination of another."""
    if not all(_has(held.get("verbs"), verb) for verb in rule.get("verbs") or ()):
        return False
    patterns = held.get("nonResourceURLs") or ()
    if not all(
        any(_covers_path(pattern, path) for pattern in patterns) for path in rule.get("nonResourceURLs") or ()
    ):
        return False
    if not rule.get("resources"):
        return True
    names, wanted_names = held.get("resourceNames"), rule.get("resourceNames") or ("",)
    return (
        (not names or all(name in names for name in wanted_names))
        and all(_has(held.get("apiGroups"), group) for group in rule.get("apiGroups") or ())
        and all(
            _covers_resource(held.get("resources") or (), resource)
            for resource in rule.get("resources") or ()
        )
    )


def _has(values: Sequence[str] | None, value: str) -> bool:
    return values is not None and (value in values or _ALL in values)


def _covers_resource(patterns: Sequence[str], resource: str) -> bool:
    if _has(patterns, resource):
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"{_ALL}/{subresource}" in patterns


def _covers_path(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith(_ALL) and path.startswith(pattern.rstrip(_ALL)))


def _shown(place: _Right, verbs: Sequence[str]) -> str:
    fields = (
        (("NonResourceURLs", [place.path]),)
        if place.path
        else (
            ("APIGroups", [place.group]),
            ("Resources", [place.resource]),
            ("ResourceNames", [place.name] if place.name else []),
        )
    )
    parts = [f"{field}:{_quoted(values)}" for field, values in (*fields, ("Verbs", verbs)) if values]
    return "{" + ", ".join(parts) + "}"


def _quoted(values: Sequence[str]) -> str:
    """Return a list as Go's %q prints it."""
    return "[" + " ".join(json.dumps(value, ensure_ascii=False) for value in values) + "]"
