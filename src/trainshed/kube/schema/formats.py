"""Formats of texts in the schemas of custom resources.

Which there are: apiextensions `validation/formats.go`. What each means: kube-openapi `validation/strfmt`. Others, and
those of numbers, say nothing here. Texts may be as long as a body: patterns that could go through one twice are RE2's.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Callable

from trainshed.kube.cel.re2 import compile_re2
from trainshed.kube.meta.times import parse_date


def fits(name: str, text: str) -> bool:
    """Return whether a text has a format, or there is no such format. Dashes in the name do not count."""
    name = name.replace("-", "")
    if name in _PATTERNS:
        return _compiled(name).fullmatch(text) is not None
    check = _CHECKS.get(name)
    try:
        return check is None or check(text)
    except ValueError:
        return False


@functools.cache
def _compiled(name: str) -> re.Pattern[str]:
    return re.compile(_PATTERNS[name], re.ASCII)


_CHANNEL = r"\s*(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"


def _uuid(third: str = "[0-9a-f]", fourth: str = "[0-9a-f]") -> str:
    return f"(?i)[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}[0-9a-f]{{3}}-?{fourth}[0-9a-f]{{3}}-?[0-9a-f]{{12}}"


_PATTERNS = {
    "bsonobjectid": "[0-9a-fA-F]{24}",
    "byte": "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)",
    "hexcolor": "#?(?:[0-9a-fA-F]{3}){1,2}",
    "mac": "|".join(
        f"[0-9a-fA-F]{{{digits}}}(?:{sign}[0-9a-fA-F]{{{digits}}}){{{more}}}"
        for digits, sign, pairs in ((2, ":", 1), (2, "-", 1), (4, r"\.", 2))
        for more in (6 // pairs - 1, 8 // pairs - 1, 20 // pairs - 1)
    ),
    "rgbcolor": rf"rgb\({_CHANNEL},{_CHANNEL},{_CHANNEL}\)",
    "ssn": r"\d{3}[- ]\d{2}[- ]\d{4}",
    "uuid": _uuid(),
    "uuid3": _uuid(third="3"),
    "uuid4": _uuid(third="4", fourth="[89ab]"),
    "uuid5": _uuid(third="5", fourth="[89ab]"),
}


# -------------------------------------------------------------------------------------------------- addresses


def _unpadded(text: str) -> str:
    """Return an address without the zeros before its decimal numbers, which Go once read and Kubernetes still does."""
    return re.sub(r"(?<![0-9a-fA-F:])0+(?=\d+(?:\.|$))|(?<=:)0+(?=\d+\.)", "", text) if "." in text else text


_LONGEST_ADDRESS = 100
"""The longest address has 45 characters, and zeros besides."""


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    if "%" in text or len(text) > _LONGEST_ADDRESS:
        raise ValueError("an address of a zone, or none")
    return ipaddress.ip_address(text)


def _ipv4(text: str) -> bool:
    return "." in text and bool(_address(_unpadded(text[: _LONGEST_ADDRESS + 1])).version)


def _ipv6(text: str) -> bool:
    return ":" in text and _address(text).version == 6


def _cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    found = _address(_unpadded(address[: _LONGEST_ADDRESS + 1]))
    is_number = bits.isascii() and bits.isdecimal() and len(bits) <= _LONGEST_ADDRESS
    return bool(slash) and is_number and int(bits) <= found.max_prefixlen


def _uri(text: str) -> bool:
    from trainshed.kube.cel.library import urls  # which few schemas ask for

    return text == "*" or not urls.fault(text)


_IN_LABEL = r"a-zA-Z0-9\p{S}\p{L}"
_LABEL = f"[{_IN_LABEL}](?:-?[{_IN_LABEL}]{{0,62}})?"
_NAME = f"(?:[{_IN_LABEL}](?:[{_IN_LABEL}-]{{0,61}}[{_IN_LABEL}])?\\.)+[a-zA-Z\\p{{L}}]{{2,63}}"


def _hostname(text: str) -> bool:
    if len(text.encode()) > 255 or any(len(label.encode()) > 63 for label in text.split(".")):
        return False
    return compile_re2(f"^(?:{_LABEL}|{_NAME})$").matches(text)


_ATOM = r"[^\x00-\x20\x7f()<>\[\]:;@\\,.\"]+"
_QUOTED = r'"(?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[^\x00-\x08\x0a-\x1f\x7f])*"'
_SPEC = rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@(?:{_ATOM}(?:\.{_ATOM})*|\[[0-9a-fA-F.:]+\])"


def _email(text: str) -> bool:
    """Return whether a text is an address of RFC 5322, also one with a name: `Jane Doe <jane@example.com>`."""
    named = rf"(?:(?:{_ATOM}|{_QUOTED}|\.)[ \t]*)*<{_SPEC}>"
    return compile_re2(rf"^[ \t]*(?:{_SPEC}|{named})[ \t]*(?:\([^()]*\)[ \t]*)?$").matches(text)


# ------------------------------------------------------------------------------------------- dates and times


def _date(text: str) -> bool:
    return re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) is not None and bool(parse_date(text))


def _date_time(text: str) -> bool:
    day, _, rest = text.lower().partition("t")
    found = re.fullmatch(r"(\d\d):(\d\d):(\d\d)(.\d+)?(z|[+-]\d\d:\d\d)", rest.partition("t")[0], re.ASCII)
    return found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59" and _date(day)


_GO_DURATION = r"^[-+]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)$"
_AMOUNT = r"\d+\s*[A-Za-zµ]+"
_UNITS = frozenset(("ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"))
_BEGIN_UNITS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")


def _duration(text: str) -> bool:
    """Return whether a text is a duration of Go, or says one in words somewhere: `2 days`."""
    if compile_re2(_GO_DURATION).matches(text):
        return True
    units = (amount.lstrip("0123456789 \t\n\f\r").lower() for amount in compile_re2(_AMOUNT).find_all(text))
    return any(unit in _UNITS or unit.startswith(_BEGIN_UNITS) for unit in units)


# -------------------------------------------------------------------------------------------- numbers of things


def _digits(text: str) -> str:
    return re.sub(r"[\s-]+", "", text)


def _isbn10(text: str) -> bool:
    digits = _digits(text)
    if not re.fullmatch(r"\d{9}[\dX]", digits, re.ASCII):
        return False
    return (
        sum(place * (10 if digit == "X" else int(digit)) for place, digit in enumerate(digits, 1)) % 11 == 0
    )


def _isbn13(text: str) -> bool:
    digits = _digits(text)
    if not re.fullmatch(r"\d{13}", digits, re.ASCII):
        return False
    return sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10 == 0


_CARDS = (
    r"4\d{12}(?:\d{3})?|5[1-5]\d{14}|6(?:011|5\d\d)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}"
    r"|(?:2131|1800|35\d{3})\d{11}"
)


def _credit_card(text: str) -> bool:
    digits = _digits(text)
    if not re.fullmatch(_CARDS, digits, re.ASCII):
        return False
    doubled = "".join(
        str(int(digit) * (2 if place % 2 else 1)) for place, digit in enumerate(reversed(digits))
    )
    return sum(map(int, doubled)) % 10 == 0


_CHECKS: dict[str, Callable[[str], bool]] = {
    "cidr": _cidr,
    "creditcard": _credit_card,
    "date": _date,
    "datetime": _date_time,
    "duration": _duration,
    "email": _email,
    "hostname": _hostname,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "uri": _uri,
}
