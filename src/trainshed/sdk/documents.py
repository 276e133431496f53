"""The text of manifests as values, read as kubectl reads it. Pure.

kubectl takes JSON as it is and turns YAML into JSON by the rules of go-yaml 2 (sigs.k8s.io/yaml): YAML 1.1 with the
octal numbers of 1.2, without numbers to the base of 60 and without dates. These rules are its `resolve.go`; what
they make of each word is compared with kubectl itself (tests/e2e/test_yaml_as_kubectl.py).
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import yaml

Warn: TypeAlias = Callable[[str, int], object]
"""Is told what may be meant otherwise than it is read, and the line, from 1; 0 where it is not known."""


class Unreadable(Exception):
    """The text is neither YAML nor JSON. `line` counts from 1 and is 0 where it is not known."""

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(problem)
        self.line = line


_MOST_VALUES = 4_000_000
"""Keys and values: more than any manifest has; a few lines of aliases of aliases stand for more."""

_DEEPEST = 250
"""Levels of nesting; pod templates have about 15."""

_TAG = "tag:yaml.org,2002:"
_PLAIN, _TEXT, _MERGE = "!plain", f"{_TAG}str", "<<"
_TRUE = {word: True for each in ("y", "yes", "true", "on") for word in (each, each.title(), each.upper())}
_FALSE = {word: False for each in ("n", "no", "false", "off") for word in (each, each.title(), each.upper())}
_NULL = dict.fromkeys(("", "~", "null", "Null", "NULL"))
_NOT_FINITE = {
    f"{sign}.{word}": float(f"{sign}inf") for sign in ("", "+", "-") for word in ("inf", "Inf", "INF")
} | dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan)
_WORDS: dict[str, Any] = {**_TRUE, **_FALSE, **_NULL, **_NOT_FINITE}
_INTEGER = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT = re.compile(r"[+-]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][+-]?[0-9]+)?")
_FRACTION = re.compile(r"\.[0-9]+(?:[eE][+-]?[0-9]+)?")
_SURROGATE = re.compile("[\ud800-\udfff]")
_INT64, _UINT64 = 2**63, 2**64


def documents(text: str, warn: Warn = lambda said, line: None) -> Iterator[Any]:
    """Yield the documents in the text that are not empty. Raises Unreadable."""
    text = _SURROGATE.sub("\ufffd", text.removeprefix("\ufeff"))
    if text.lstrip().startswith("{"):
        try:
            found, said = _json(text)
        except (ValueError, RecursionError):
            pass  # a flow mapping, or JSON with a comma too many: kubectl tries it as YAML, too
        else:
            for each in said:
                warn(each, 0)
            yield from found
            return
    yield from _yaml(text, warn)


def _json(text: str) -> tuple[list[Any], list[str]]:
    """Return the JSON values in the text, and what to warn of."""
    said: list[str] = []

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            said.extend(_twice(key) for key in found if keys.count(key) > 1)
        return found

    def refuse(word: str) -> Any:
        raise ValueError(word)

    decoder = json.JSONDecoder(
        object_pairs_hook=mapping, parse_int=_number, parse_float=_number, parse_constant=refuse
    )
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        while text[at].isspace():
            at += 1
        value, at = decoder.raw_decode(text, at)
        if value is not None:
            found.append(value)
    if "\\ud" in text.lower():  # half a character, escaped: as the server's decoder, not as Python's
        found = json.loads(_SURROGATE.sub("\ufffd", json.dumps(found, ensure_ascii=False)))
    return found, said


def _twice(key: str) -> str:
    return f'duplicate key "{key}": the last one counts'


class _Parser(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """The events of a text. Nodes are composed here: the library's C code has no limit of depth but the stack's."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._anchors: dict[str, yaml.Node] = {}
        self._size = 0
        """How many values the document stands for so far, with what its aliases stand for."""
        self._sizes: dict[str, int] = {}

    def documents(self) -> Iterator[yaml.Node]:
        """Yield the root node of each document."""
        event: Any
        while not isinstance(event := self.get_event(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors, self._sizes, self._size = {}, {}, 0
                yield self._node(self.get_event(), 0)

    def _node(self, event: Any, depth: int) -> yaml.Node:
        """Return the node that begins with the event. Its tag is _PLAIN where a word stands for itself."""
        mark: Any = event.start_mark
        if depth > _DEEPEST:
            raise Unreadable("nested too deeply", mark.line + 1)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise Unreadable(f"unknown anchor '{event.anchor}' referenced", mark.line + 1)
            self._count(self._sizes.get(event.anchor, 1), mark.line)  # none yet: it contains itself
            return self._anchors[event.anchor]
        before = self._size
        self._count(1, mark.line)
        if isinstance(event, yaml.ScalarEvent):
            tag = event.tag or (_PLAIN if event.implicit[0] else _TEXT)
            node: yaml.Node = yaml.ScalarNode(tag, event.value, mark)
            if event.anchor:
                self._anchors[event.anchor], self._sizes[event.anchor] = node, 1
            return node
        items: list[Any] = []
        inner: Any
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        node = (yaml.MappingNode if is_mapping else yaml.SequenceNode)(event.tag, items, mark)
        if event.anchor:
            self._anchors[event.anchor] = node
            self._sizes.pop(event.anchor, None)
        end = yaml.MappingEndEvent if is_mapping else yaml.SequenceEndEvent
        while not isinstance(inner := self.get_event(), end):
            first = self._node(inner, depth + 1)
            items.append((first, self._node(self.get_event(), depth + 1)) if is_mapping else first)
        if event.anchor:
            self._sizes[event.anchor] = self._size - before
        return node

    def _count(self, values: int, line: int) -> None:
        self._size += values
        if self._size > _MOST_VALUES:
            raise Unreadable("document contains excessive aliasing", line + 1)


def _yaml(text: str, warn: Warn) -> Iterator[Any]:
    try:
        parser = _Parser(text)
        try:
            for root in parser.documents():
                value = _Reader(warn).value(root)
                if value is not None:
                    yield value
        finally:
            parser.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable(str(error.problem or error.context), mark.line + 1 if mark else 0) from error
    except yaml.YAMLError as error:
        raise Unreadable(str(error).partition("\n")[0]) from error
    except RecursionError as error:
        raise Unreadable("nested too deeply") from error


class _Reader:
    """Makes values of the nodes of one document."""

    def __init__(self, warn: Warn) -> None:
        self._warn = warn
        self._open: set[int] = set()

    def value(self, node: yaml.Node) -> Any:
        """Return what the node stands for. Raises Unreadable."""
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if id(node) in self._open:
            raise Unreadable("an anchor's value contains itself", _line(node))
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.value(item) for item in node.value]
            return self._mapping(node.value)
        finally:
            self._open.remove(id(node))

    def _mapping(self, pairs: list[tuple[yaml.Node, yaml.Node]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        seen: set[str] = set()
        for key_node, value_node in pairs:
            if isinstance(key_node, yaml.ScalarNode) and _is_merge(key_node):
                found.update(self._merged(value_node))
                continue
            key = _key(key_node)
            if key in seen:
                self._warn(_twice(key), _line(key_node))
            seen.add(key)
            found[key] = self.value(value_node)
        return found

    def _merged(self, node: yaml.Node) -> dict[str, Any]:
        """Return what `<<:` brings in: of several mappings the first that has a key counts."""
        nodes = node.value[::-1] if isinstance(node, yaml.SequenceNode) else [node]
        found: dict[str, Any] = {}
        for each in nodes:
            if not isinstance(each, yaml.MappingNode):
                raise Unreadable("map merge requires map or sequence of maps as the value", _line(node))
            found.update(self.value(each))
        return found


def _is_merge(node: yaml.ScalarNode) -> bool:
    return bool(node.value == _MERGE and node.tag in (_PLAIN, f"{_TAG}merge"))


def _key(node: yaml.Node) -> str:
    """Return a key as JSON has it: text."""
    if not isinstance(node, yaml.ScalarNode):
        raise Unreadable("invalid map key: it is not a scalar", _line(node))
    value = _scalar(node)
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float() if math.isfinite(value) and abs(value) < _INT64:
            return f"{value:g}"
    raise Unreadable(f"unsupported map key: {node.value or 'null'}", _line(node))


def _scalar(node: yaml.ScalarNode) -> Any:
    tag, word = node.tag, node.value
    if tag == _TEXT:
        return word
    if tag == _PLAIN:
        value = _resolved(word)
    elif tag == f"{_TAG}binary":
        return _from_base64(node)
    elif tag in _FITTING:
        value = _resolved(word)
        if not _fits(value, word, tag):
            raise Unreadable(f"cannot read `{word}` as a !!{tag.removeprefix(_TAG)}", _line(node))
    else:
        return word
    if isinstance(value, float) and not math.isfinite(value):
        raise Unreadable(f"unsupported value: {word}", _line(node))
    return value


_FITTING: dict[str, Any] = {
    f"{_TAG}int": int,
    f"{_TAG}float": (int, float),
    f"{_TAG}bool": bool,
    f"{_TAG}null": type(None),
}
"""What a scalar with an explicit tag has to be."""


def _fits(value: Any, word: str, tag: str) -> bool:
    if isinstance(value, bool):
        return tag == f"{_TAG}bool"
    if tag == f"{_TAG}int" and not _INTEGER.fullmatch(word.replace("_", "")):
        return False
    return isinstance(value, _FITTING[tag])


def _from_base64(node: yaml.ScalarNode) -> str:
    try:
        return base64.b64decode("".join(node.value.split()), validate=True).decode("utf-8", "replace")
    except ValueError as error:
        raise Unreadable("!!binary value contains invalid base64 data", _line(node)) from error


def _resolved(word: str) -> Any:
    """Return what a word without quotes stands for."""
    if word in _WORDS:
        return _WORDS[word]
    first = word[:1]
    if first == ".":
        return _number(word) if _FRACTION.fullmatch(word) else word
    if not (first.isascii() and first.isdigit()) and first not in ("+", "-"):
        return word
    return _number(word.replace("_", ""), word)


def _number(text: str, otherwise: str | None = None) -> Any:
    """Return the number as JSON carries it to the server, or `otherwise`, or the text itself, when it is none.

    A float without a fraction is an integer there; an integer of more than 64 bits is a float.
    """
    unread = text if otherwise is None else otherwise
    match = _INTEGER.fullmatch(text)
    if match is not None:
        sign, hexadecimal, binary, octal, decimal = match.groups()
        digits, base = next(
            (digits, base)
            for digits, base in ((hexadecimal, 16), (binary, 2), (octal, 8), (decimal, 10))
            if digits is not None
        )
        if len(digits) <= 64:
            value = -int(digits, base) if sign == "-" else int(digits, base)
            if -_INT64 <= value < _INT64:
                return value
            if value < _UINT64 and not sign and value > 0:
                return float(value)
    if not _FLOAT.fullmatch(text):
        return unread
    number = float(text)
    if not math.isfinite(number):
        return unread
    return int(number) if number.is_integer() and abs(number) < _INT64 else number


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
