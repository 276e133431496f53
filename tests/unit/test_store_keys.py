"""Keys of the store: built and read in one place."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import trainshed
from trainshed.cluster.store import keys
from trainshed.kube.builtin.registry import RESOURCES
from trainshed.kube.meta.resources import EVENTS, NODES, PODS, ROLES, Resource

SOURCE = Path(trainshed.__file__).parent
GROUPS = {resource.resource.group or "core" for resource in RESOURCES}
KEY_LIKE = re.compile(rf"""["']/(\{{|{"|".join(map(re.escape, sorted(GROUPS)))})""")
"""What a source has in it that spells a key."""


@pytest.mark.parametrize(
    ("resource", "namespace", "name", "key"),
    [
        (PODS, "default", "web-0", "/core/pods/default/web-0"),
        (NODES, None, "n1", "/core/nodes/-/n1"),
        (ROLES, "a", "system:x", "/rbac.authorization.k8s.io/roles/a/system:x"),
        (Resource("kubeflow.org", "v1", "xs", "X"), "a", "a/b", "/kubeflow.org/xs/a/a/b"),
    ],
)
def test_a_key_says_where_an_object_is(
    resource: Resource, namespace: str | None, name: str, key: str
) -> None:
    assert keys.of(resource, namespace, name) == key
    assert keys.place(key) == keys.Place(resource.group, resource.plural, namespace, name)
    for prefix in (keys.within(resource.group), keys.under(resource), keys.under(resource, namespace)):
        assert key.startswith(prefix)


def test_prefixes_end_where_a_name_ends() -> None:
    """The keys of `events` are not among those of `even`, nor those of namespace `ab` among those of `a`."""
    assert keys.under(EVENTS) == "/core/events/"
    assert keys.under(EVENTS, "a") == "/core/events/a/"
    assert keys.collection("example.com", "xs") == "/example.com/xs/"


def starts_of_texts(file: Path) -> list[tuple[int, str]]:
    """Return line and first constant part of every string and f-string, docstrings apart."""
    tree = ast.parse(file.read_text())
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inner = {id(v) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for v in node.values}
    out = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner | docs:
            text = node.value
        else:
            continue
        out.append((node.lineno, text))
    return out


def is_key(text: str) -> bool:
    """Whether a text looks like the start of a key: a group that is served, or two or more computed segments."""
    if text.startswith("/{}/{}/"):
        return True
    return text.startswith("/") and text[1:].partition("/")[0] in GROUPS and text.count("/") > 1


def test_no_other_module_writes_a_key() -> None:
    places = [file for file in sorted((SOURCE / "cluster").rglob("*.py")) if "sandbox" not in file.parts]
    found = [
        f"{file.relative_to(SOURCE)}:{line}: {text}"
        for file in places
        if file.name != "keys.py"
        if KEY_LIKE.search(file.read_text())  # parsing takes a hundred times as long
        for line, text in starts_of_texts(file)
        if is_key(text)
    ]
    assert found == []
    assert KEY_LIKE.search(Path(keys.__file__).read_text()), "the search finds them"


def test_no_other_module_takes_a_key_apart() -> None:
    found = [
        str(file.relative_to(SOURCE))
        for file in sorted((SOURCE / "cluster").rglob("*.py"))
        if file.name != "keys.py" and ".key.split(" in file.read_text()
    ]
    assert found == []
