"""Request bodies: JSON and YAML bytes to plain values, duplicate fields included.

JSON is read by msgspec. It keeps the last of two equal keys and cannot say that there were two, so when a
client asks for field validation a second reader looks for repeated keys; only a body that has some pays for
finding out where.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from trainshed.kube.meta import errors
from trainshed.kube.meta.objects import Object

MAX_YAML_NODES = 250_000
"""A YAML document may expand to this many values: aliases can make a small body unboundedly large."""

MAX_DEPTH = 200
"""How many lists and objects a body may hold within one another. Upstream stops at 10,000, which no walk of ours
survives; the deepest schemas in use, twice as deep as the objects that they describe, stay below 100."""

MAX_CONTAINERS = 200_000
"""How many lists and objects a JSON body may hold: to make a million empty ones keeps everybody waiting for half a
second. Of what is stored, managedFields are the densest, with one in 17 bytes: 3 MiB of them have fewer."""

TOO_MANY = f"the document holds more than {MAX_CONTAINERS} lists and objects"

TOO_DEEP = f"the document is nested too deeply: more than {MAX_DEPTH} levels"

_SPARSE_BYTES = 64 * 1024
"""From here on a text of few lists and objects is told from others first: to count what is rare takes five times as
long as to find all of it, and nobody else of this process runs meanwhile."""

_encode = msgspec.json.Encoder().encode
_APPLY = "application/apply-patch+yaml"


def decode_body(
    data: bytes, content_type: str = "", *, kind: str = "", find_duplicates: bool = True
) -> tuple[Object, list[str]]:
    """Return the object in a request body and the paths of fields that it holds more than once.

    Args:
        content_type: `application/yaml` means YAML; everything else, also absent, means JSON.
        kind: what the resource expects; only for messages.
        find_duplicates: False skips the search (fieldValidation=Ignore).

    Raises:
        ApiError: 400, the body is malformed or is not an object.
    """
    try:
        if is_yaml(content_type) and not _is_json(data):
            value, duplicates = _decode_yaml(data)
        else:
            value = decode_json(data)
            duplicates = json_duplicates(data) if find_duplicates and not _holds_all(value, data) else []
    except (msgspec.DecodeError, ValueError, UnicodeDecodeError) as error:
        if content_type == _APPLY:
            raise errors.bad_request(f"error decoding YAML: {as_go(error, data)}") from error
        raise _unrecognized(kind, as_go(error, data), data) from error
    value = {} if value is None else value  # Go leaves an object as it is
    if not isinstance(value, dict):
        if content_type == _APPLY:
            what = f"cannot unmarshal {json_kind(value)} into Go value of type map[string]interface {{}}"
            raise errors.bad_request(
                f"error decoding YAML: error unmarshaling JSON: while decoding JSON: json: {what}"
            )
        what = f"json: cannot unmarshal {json_kind(value)} into Go value of type {TYPED}"
        raise _unrecognized(kind, what, data)
    for field in value.keys() & {"apiVersion", "kind"}:
        if not isinstance(value[field], str | None):
            what = f"json: cannot unmarshal {json_kind(value[field])} into Go struct field .{field} of type string"
            raise _unrecognized(kind, what, data)
    return value, duplicates


def decode_value(data: bytes, content_type: str = "", *, what: str = "error decoding patch: ") -> Any:
    """Return any JSON or YAML value, e.g. the list of a JSON patch. `what` begins the text of a refusal.

    Raises:
        ApiError: 400, the body is malformed.
    """
    try:
        if is_yaml(content_type) and not _is_json(data):
            return _decode_yaml(data)[0]
        return decode_json(data)
    except (msgspec.DecodeError, ValueError, UnicodeDecodeError) as error:
        raise errors.bad_request(f"{what}{as_go(error, data)}") from error


def decode_json(data: bytes) -> Any:
    """Return a JSON value. Raises ValueError, msgspec's DecodeError: it is none, too large or nested too deeply."""
    count = _containers(data)
    if count > MAX_CONTAINERS:
        raise ValueError(TOO_MANY)
    try:
        value = msgspec.json.decode(data)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    if count > MAX_DEPTH and is_too_deep(value):
        raise ValueError(TOO_DEEP)
    return value


def _holds_all(value: Any, data: bytes) -> bool:
    """Return whether a text is what its value is written as, so that reading it has dropped nothing: no repeated field.

    White space does not count, between values or within: two texts that are the same without it have as many fields.
    So write msgspec, Go and Python, but for what they escape; of others it says no, and a slower reader has to look,
    which keeps everybody waiting ten times as long.
    """
    try:
        written = _encode(value)
    except (msgspec.EncodeError, ValueError, UnicodeError, RecursionError):
        return False
    return bool(written == data or _without_space(written) == _without_space(data))


def _without_space(text: bytes) -> bytes:
    for space in (b" ", b"\n", b"\t", b"\r"):
        text = text.replace(space, b"")
    return text


def _containers(data: bytes) -> int:
    """Return how many lists and objects a JSON text holds; at most, while that is few enough."""
    if (
        len(data) >= _SPARSE_BYTES
        and not _begins(data, b"{", MAX_DEPTH // 2)
        and not _begins(data, b"[", MAX_DEPTH // 2)
    ):
        return MAX_DEPTH
    count = data.count(b"{") + data.count(b"[")
    if count > MAX_CONTAINERS:
        outside = b"".join(data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
        count = outside.count(b"{") + outside.count(b"[")
    return count


def _begins(data: bytes, what: bytes, times: int) -> bool:
    """Return whether a text has something more often than so many times."""
    at = -1
    for _ in range(times + 1):
        at = data.find(what, at + 1)
        if at < 0:
            return False
    return True


def is_too_deep(value: Any) -> bool:
    """Return whether lists and objects are nested more than `MAX_DEPTH` levels. Does not recurse."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            item
            for held in level
            for item in (held.values() if isinstance(held, dict) else held)
            if isinstance(item, dict | list)
        ]
    return bool(level)


def is_yaml(content_type: str) -> bool:
    """Return whether a media type, parameters allowed, announces YAML: `application/yaml`, `apply-patch+yaml`."""
    return content_type.partition(";")[0].strip().lower().endswith("yaml")


def _is_json(data: bytes) -> bool:
    """Return whether a YAML document is JSON, too, as most clients write it: that reader is a hundred times faster."""
    if not data.lstrip().startswith((b"{", b"[")):
        return False
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True


def json_kind(value: Any) -> str:
    """Return what JSON calls the type of a value, in the words of Go's decoder."""
    if value is None:
        return "null"
    return _KINDS.get(type(value), "value")


_KINDS = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}


TYPED = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
"""What Go's decoder calls that of which it wants to know the kind first."""
_SHOWN_BYTES = 30


def as_go(error: Exception, data: bytes) -> str:
    """Return what Go's decoder says of a text that is no JSON; other faults in the words of ours."""
    if not isinstance(error, msgspec.DecodeError):
        return str(error)
    from trainshed.kube.wire.gojson import TRUNCATED, syntax_error  # which few ask for

    return syntax_error(data) or (TRUNCATED if str(error) == "Input data was truncated" else str(error))


def _summary(data: bytes) -> str:
    """Return how a body begins: as text where it looks like JSON."""
    if not data:
        return "<empty>"
    some = data[:_SHOWN_BYTES]
    return (some.decode(errors="replace") if some[:1] == b"{" else some.hex()) + (
        " ..." if len(data) > _SHOWN_BYTES else ""
    )


def _unrecognized(kind: str, why: str, data: bytes) -> errors.ApiError:
    expected = f" (must be of type {kind})" if kind else ""
    return errors.bad_request(
        f"the object provided is unrecognized{expected}: couldn't get version/kind; json parse error: {why}"
        f" ({_summary(data)})"
    )


# ------------------------------------------------------------------------------------------- duplicates


class _Repeated(dict[str, Any]):
    """An object with repeated keys, and which."""

    repeated: Sequence[str] = ()


def json_duplicates(data: bytes) -> list[str]:
    """Return the paths, e.g. `data.a`, of fields that a well-formed JSON document repeats."""
    found = False

    def join(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        joined = dict(pairs)
        if len(joined) == len(pairs):
            return joined
        found = True
        marked = _Repeated(joined)
        seen: set[str] = set()
        marked.repeated = list(dict.fromkeys(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
        return marked

    document = json.loads(data, object_pairs_hook=join)
    return list(_repeated(document, "")) if found else []


def _repeated(value: Any, path: str) -> list[str]:
    out: list[str] = []
    if isinstance(value, dict):
        if isinstance(value, _Repeated):
            out += [field_path(path, key) for key in value.repeated]
        for key, item in value.items():
            out += _repeated(item, field_path(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            out += _repeated(item, f"{path}[{index}]")
    return out


def field_path(parent: str, key: str) -> str:
    """Return `parent.key`, or `key` at the root."""
    return f"{parent}.{key}" if parent else key


# ------------------------------------------------------------------------------------------------- YAML


_YAML_ERROR = "error converting YAML to JSON"
_YAML_BOOL = re.compile(
    "(?:y|Y|yes|Yes|YES|on|On|ON|n|N|no|No|NO|off|Off|OFF|true|True|TRUE|false|False|FALSE)$"
)
"""What Go's reader takes for a truth value, keys included: `y` and `n` are of them."""
_YES = ("y", "ye", "on", "tr")
_YAML_INT = re.compile(r"[-+]?(0[bB][01_]+|0[oO]?[0-7_]+|0[xX][0-9a-fA-F_]+|0|[1-9][0-9_]*)$")
_YAML_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?$|[-+]?\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$"
)


@functools.cache
def _loader() -> Any:
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Kubernetes YAML is JSON in disguise: there are no dates, only strings.

        The composer, recursive and written in C, calls `descend_resolver` for each node before it goes into it:
        the only place to stop it before its stack is full.
        """

        depth = 0
        nodes = 0

        def descend_resolver(self, current_node: Any, current_index: Any) -> None:
            self.depth += 1
            self.nodes += 1
            if self.depth > MAX_DEPTH + 1:  # a scalar has a level of its own
                raise ValueError(f"{_YAML_ERROR}: {TOO_DEEP}")
            if self.nodes > MAX_YAML_NODES:
                raise ValueError(f"{_YAML_ERROR}: the document has more than {MAX_YAML_NODES} values")

        def ascend_resolver(self) -> None:
            self.depth -= 1

    own = (":timestamp", ":int", ":float", ":bool")
    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(own)]
        for first, resolvers in Loader.yaml_implicit_resolvers.items()
    }
    for kind, pattern, first in (
        ("bool", _YAML_BOOL, "yYnNtTfFoO"),
        ("int", _YAML_INT, "-+0123456789"),
        ("float", _YAML_FLOAT, "-+0123456789."),
    ):
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", pattern, list(first))
    Loader.add_constructor("tag:yaml.org,2002:bool", lambda _, node: node.value[:2].lower() in _YES)
    Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: _yaml_int(node.value))
    Loader.add_constructor("tag:yaml.org,2002:float", lambda _, node: _yaml_float(node.value))
    return Loader


def _yaml_int(text: str) -> int:
    """Return an integer as Go reads it: `0x1f`, `0b1`, `0o17` and `017` have other bases."""
    digits = text.replace("_", "").lower()
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        return sign * int(digits, 8)
    return sign * int(digits, 0)


def _yaml_float(text: str) -> float:
    plain = text.replace("_", "").lower()
    if plain.lstrip("+-") in (".inf", ".nan"):
        shown = {"-": "-Inf", "n": "NaN"}.get(plain.lstrip("+.")[:1], "+Inf")
        raise ValueError(f"json: unsupported value: {shown}")
    return float(plain)


def _decode_yaml(data: bytes) -> tuple[Any, list[str]]:
    import yaml

    loader = _loader()(data)
    try:
        node = loader.get_single_node()
        if node is None:
            return None, []
        duplicates: list[str] = []
        budget = [MAX_YAML_NODES]
        _inspect(node, "", duplicates, budget)
        value = _plain(loader.construct_document(node))
    except yaml.YAMLError as error:
        raise ValueError(f"{_YAML_ERROR}: {error}") from error
    except RecursionError:  # by aliases
        raise ValueError(f"{_YAML_ERROR}: {TOO_DEEP}") from None
    finally:
        loader.dispose()
    if is_too_deep(value):
        raise ValueError(f"{_YAML_ERROR}: {TOO_DEEP}")
    return value, duplicates


def _inspect(node: Any, path: str, duplicates: list[str], budget: list[int]) -> None:
    """Collect repeated keys; raise ValueError for a document whose aliases expand without end."""
    budget[0] -= 1
    if budget[0] < 0:
        raise ValueError(f"{_YAML_ERROR}: the document has excessive aliasing")
    if node.id == "mapping":
        seen: set[str] = set()
        for key, value in node.value:
            below = field_path(path, str(key.value))
            if key.id == "scalar" and key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                duplicates.append(below)
            elif key.id == "scalar":
                seen.add(key.value)
            _inspect(value, below, duplicates, budget)
    elif node.id == "sequence":
        for index, value in enumerate(node.value):
            _inspect(value, f"{path}[{index}]", duplicates, budget)


def _plain(value: Any) -> Any:
    """Return a copy that JSON can hold: keys are strings, nothing is shared."""
    if isinstance(value, dict):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise ValueError(f"{_YAML_ERROR}: a {type(value).__name__} has no JSON form")


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str | int | float):
        return str(key)
    raise ValueError(f"{_YAML_ERROR}: a key must be a scalar")
