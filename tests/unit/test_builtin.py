"""The declarations of built-in kinds: complete, listed, and true to each other."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from trainshed.kube import builtin
from trainshed.kube.builtin.kind import Builtin
from trainshed.kube.builtin.registry import BUILTINS, find
from trainshed.kube.meta.resources import Resource
from trainshed.kube.schema.definitions import definition_name

_SHARED = {"kind", "parts", "registry"}
IDS = [f"{kind.info.resource.group_resource}/{kind.info.resource.version}" for kind in BUILTINS]
each_kind = pytest.mark.parametrize("kind", BUILTINS, ids=IDS)


def declared() -> list[Builtin]:
    """Return what the files of all families declare."""
    out: list[Builtin] = []
    for family in pkgutil.iter_modules(builtin.__path__, f"{builtin.__name__}."):
        if family.name.rpartition(".")[2] in _SHARED:
            continue
        package = importlib.import_module(family.name)
        for file in pkgutil.iter_modules(package.__path__, f"{family.name}."):
            values = vars(importlib.import_module(file.name)).values()
            found = [value for value in values if isinstance(value, Builtin)]
            assert found, f"{file.name} declares no kind"
            out += found
    return out


def test_every_declared_kind_is_listed_once() -> None:
    """A file that the registry does not list would be a kind that nobody serves."""
    listed = [kind.info.resource for kind in BUILTINS]
    assert len(listed) == len(set(listed))
    assert {kind.info.resource for kind in declared()} == set(listed)


def test_groups_and_kinds_are_listed_together() -> None:
    """Discovery shows the groups in this order; what is apart here would be apart there."""
    groups = [kind.info.resource.group for kind in BUILTINS]
    assert [group for i, group in enumerate(groups) if i == 0 or groups[i - 1] != group] == list(
        dict.fromkeys(groups)
    )


@each_kind
def test_what_is_stored_has_a_schema(kind: Builtin) -> None:
    resource = kind.info.resource
    if kind.info.stored:
        assert definition_name((resource.group, resource.version, resource.kind)) is not None


@each_kind
def test_what_a_kind_says_fits_together(kind: Builtin) -> None:
    assert find(kind.info.resource) is kind
    assert (kind.view is not None) == (kind.info.view_of is not None)
    assert (kind.info.scale is not None) == ("scale" in kind.info.subresources)
    assert not (kind.inert and kind.does), "a kind that does something is not inert"
    if kind.status_on_create:
        assert kind.info.has_status


@each_kind
def test_roles_grant_what_is_served(kind: Builtin) -> None:
    """`rollback` is an exception: upstream grants it still, although nothing has served it since apps/v1."""
    for part in {*kind.viewed, *kind.edited} - {"", "rollback"}:
        assert part in kind.info.subresources


def test_whoever_creates_an_inert_kind_is_warned() -> None:
    """Only kinds that are data by nature do without."""
    stored_only = {kind.info.resource for kind in BUILTINS if not kind.does}
    warned = {kind.info.resource for kind in BUILTINS if kind.warning}
    unwarned = {(r.group, r.plural) for r in stored_only - warned if r.group != "storage.k8s.io"}
    assert stored_only >= warned
    assert unwarned == {("networking.k8s.io", "ingressclasses")}


def test_a_warning_names_the_resource() -> None:
    found = find(Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"))
    assert found is not None
    assert found.warning == "this cluster stores networkpolicies and does nothing with them"
