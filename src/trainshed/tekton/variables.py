"""`$(…)` in Tekton's objects: `$(params.x)`, `$(params["x"])`, `$(tasks.t.results.r[0])`, `$(workspaces.w.path)`.

What a reference names is looked up by its dotted form. A reference to something unknown stays as it is written. A text
that is nothing but `$(params.list[*])` becomes several entries of the list around it, or the whole array or object
where it stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

Value: TypeAlias = str | list[str] | dict[str, str]
Scope: TypeAlias = Mapping[str, Value]
"""What references name, by dotted path without `$(` and `)`."""

_REFERENCE = re.compile(r"\$\(([^()$]+)\)")
_BRACKET = re.compile(r"""\[(?:"([^"]*)"|'([^']*)')\]""")
_INDEX = re.compile(r"^(.*)\[(\*|\d+)\]$")
_MISSING = object()


def canonical(reference: str) -> str:
    """Return a reference in its dotted form: `params["x"]` as `params.x`."""
    return _BRACKET.sub(lambda m: "." + (m[1] if m[1] is not None else m[2]), reference.strip())


def references(value: Any) -> Iterator[str]:
    """Yield every reference in a JSON value, in dotted form."""
    if isinstance(value, str):
        if "$(" in value:
            yield from (canonical(m[1]) for m in _REFERENCE.finditer(value))
    elif isinstance(value, dict):
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def _look_up(reference: str, scope: Scope) -> Any:
    """Return what a reference names: a text, an array or an object with `[*]`, or `_MISSING`."""
    name = canonical(reference)
    found = _INDEX.match(name)
    if found is not None and found[1] in scope:
        whole = scope[found[1]]
        if found[2] == "*":
            return whole if isinstance(whole, list | dict) else _MISSING
        number = int(found[2])
        return whole[number] if isinstance(whole, list) and number < len(whole) else _MISSING
    if name in scope:
        value = scope[name]
        return value if isinstance(value, str) else _MISSING
    parent, _, key = name.rpartition(".")
    container = scope.get(parent)
    if isinstance(container, dict) and key in container:
        return container[key]
    return _MISSING


def _whole(text: str, scope: Scope) -> list[str] | dict[str, str] | None:
    """Return the array or object that a text is a reference to, and nothing else; with `[*]` or, as of old, without."""
    found = _REFERENCE.fullmatch(text.strip()) if "$(" in text else None
    if found is None:
        return None
    value = _look_up(found[1], scope) if "[*]" in text else scope.get(canonical(found[1]))
    return value if isinstance(value, list | dict) else None


def replace_text(text: str, scope: Scope) -> str:
    """Return the text with every known reference to a text replaced."""
    if "$(" not in text:
        return text

    def one(match: re.Match[str]) -> str:
        value = _look_up(match[1], scope)
        return value if isinstance(value, str) else match[0]

    return _REFERENCE.sub(one, text)


def replace(value: Any, scope: Scope) -> Any:
    """Return a JSON value with references replaced in every text of it, keys apart."""
    if isinstance(value, str):
        whole = _whole(value, scope)
        return replace_text(value, scope) if whole is None else whole
    if isinstance(value, dict):
        return {key: replace(item, scope) for key, item in value.items()}
    if isinstance(value, list):
        out: list[Any] = []
        for item in value:
            made = replace(item, scope)
            if isinstance(item, str) and isinstance(made, list):
                out += made
            else:
                out.append(made)
        return out
    return value


def unknown_indexes(value: Any, scope: Scope) -> list[str]:
    """Return references to an element that an array does not have."""
    out = []
    for name in references(value):
        found = _INDEX.match(name)
        if found is None or found[2] == "*":
            continue
        whole = scope.get(found[1])
        if isinstance(whole, list) and int(found[2]) >= len(whole):
            out.append(f"$({name})")
    return out
