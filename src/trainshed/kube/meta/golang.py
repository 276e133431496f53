"""Values as Go prints them with `%#v`: API servers put structs and maps into their messages so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.quantity import canonical, parse

_TYPES = {
    type(None): "<nil>",
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}


def type_name(value: Any) -> str:
    """Return the type that Go gives a value of JSON of which nothing is known: `int64`, `[]interface {}`."""
    return _TYPES[type(value)]


def text(value: Any) -> str:
    """Return a string as Go quotes it."""
    return json.dumps(str(value or ""), ensure_ascii=False)


def flag(value: Any) -> str:
    """Return a bool; one that is left out is false."""
    return "true" if value else "false"


def text_list(values: Any, kind: str = "string") -> str:
    """Return a list of strings, or of another type of texts: `[]string{"a", "b"}`."""
    return f"[]{kind}{{{', '.join(map(text, values))}}}" if values is not None else f"[]{kind}(nil)"


def strings(values: Mapping[str, str] | None) -> str:
    """Return a map of strings: `map[string]string{"a":"b"}`; there is none that is empty."""
    if not values:
        return "map[string]string(nil)"
    return f"map[string]string{{{', '.join(f'{text(key)}:{text(values[key])}' for key in sorted(values))}}}"


def anything(value: Any) -> str:
    """Return a value of JSON of which nothing is known: `map[string]interface {}{"a":1}`."""
    if isinstance(value, dict):
        shown = ", ".join(f"{text(key)}:{anything(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{shown}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(anything, value))}}}"
    return "interface {}(nil)" if value is None else json.dumps(value, ensure_ascii=False)


def time(value: Any) -> str:
    """Return a time of the API, in UTC, as it is printed: `2020-01-01 00:00:00 +0000 UTC`."""
    return f"{str(value or '').replace('T', ' ').removesuffix('Z')} +0000 UTC"


def printed(value: Any) -> str:
    """Return a value of JSON as `%v` prints it: `map[a:1 b:[x y]]`."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{printed(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(printed, value))}]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "<nil>"}[value]
    return str(value)


_SCALES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def quantity(value: Any) -> str:
    """Return a quantity that is a whole number of its suffix and fits 64 bits, as canonical ones are."""
    shown = canonical(value)
    digits = shown.rstrip("numkMGTPEi")
    suffix = shown[len(digits) :]
    if "e" in digits:  # 1e3, which stays as it is
        digits, _, exponent = digits.partition("e")
        amount, scale, style = int(digits), int(exponent), "DecimalExponent"
    elif suffix.endswith("i"):
        amount, scale, style = int(parse(shown)), 0, "BinarySI"
    else:
        amount, scale, style = int(digits), _SCALES[suffix], "DecimalSI"
    return (
        f"resource.Quantity{{i:resource.int64Amount{{value:{amount}, scale:{scale}}},"
        f" d:resource.infDecAmount{{Dec:(*inf.Dec)(nil)}}, s:{text(shown)}, Format:{text(style)}}}"
    )


def amounts(kind: str, values: Mapping[str, Any] | None) -> str:
    """Return a map of quantities of a type: `core.ResourceList{"cpu":resource.Quantity{…}}`."""
    if values is None:
        return f"{kind}(nil)"
    return f"{kind}{{{', '.join(f'{text(key)}:{quantity(values[key])}' for key in sorted(values))}}}"


def label_selector(selector: Object | None) -> str:
    """Return a LabelSelector; a pointer to none is told as such."""
    if selector is None:
        return "(*v1.LabelSelector)(nil)"
    requirements = selector.get("matchExpressions")
    shown = ", ".join(
        f"v1.LabelSelectorRequirement{{Key:{text(each.get('key'))}, Operator:{text(each.get('operator'))},"
        f" Values:{text_list(each.get('values'))}}}"
        for each in requirements or ()
    )
    listed = "(nil)" if requirements is None else f"{{{shown}}}"
    matched = strings(section(selector, "matchLabels"))
    return (
        f"v1.LabelSelector{{MatchLabels:{matched}, MatchExpressions:[]v1.LabelSelectorRequirement{listed}}}"
    )
