"""What may be called what: each check returns the reasons why a name is not allowed, empty when it is.

And how names with a random part are made (`generateName`); the chance is the caller's.

Source of rules and texts: apimachinery `util/validation`.
"""

from __future__ import annotations

import re

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_QUALIFIED})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"

_LABEL_RE = re.compile(_LABEL)
_SUBDOMAIN_RE = re.compile(_SUBDOMAIN)
_WILDCARD = rf"\*\.{_SUBDOMAIN}"
_WILDCARD_RE = re.compile(_WILDCARD)
_LABEL_1035_RE = re.compile(_LABEL_1035)
_QUALIFIED_RE = re.compile(_QUALIFIED)
_VALUE_RE = re.compile(_VALUE)
_CONFIG_KEY_RE = re.compile(_CONFIG_KEY)
_ENV_RE = re.compile(r"[ -<>-~]+")
_PORT_NAME_RE = re.compile(r"[-a-z0-9]+")

_USED = "regex used for validation is"
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    f"and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', {_USED} '{_LABEL}')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    f"start and end with an alphanumeric character (e.g. 'example.com', {_USED} '{_SUBDOMAIN}')"
)
_WILDCARD_TEXT = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character "
    f"(e.g. '*.example.com', {_USED} '{_WILDCARD}')"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character "
    f"(e.g. 'my-name',  or 'abc-123', {_USED} '{_LABEL_1035}')"
)
_NAME_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', {_USED} '{_QUALIFIED}')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', {_USED} '{_VALUE}')"
)
_CONFIG_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    f"(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', {_USED} '{_CONFIG_KEY}')"
)

LABEL_MAX = 63
SUBDOMAIN_MAX = 253


def _limit(most: int) -> str:
    return f"must be no more than {most} characters"


def _shaped(text: str, pattern: re.Pattern[str], complaint: str, most: int) -> list[str]:
    out = [] if pattern.fullmatch(text) else [complaint]
    if len(text) > most:
        out.append(_limit(most))
    return out


def dns_label(name: str) -> list[str]:
    """RFC 1123 label, at most 63: containers, volumes, namespaces."""
    dotted = _SUBDOMAIN_RE.fullmatch(name) is not None
    return _shaped(name, _LABEL_RE, "must not contain dots" if dotted else _LABEL_TEXT, LABEL_MAX)


def dns_subdomain(name: str) -> list[str]:
    """RFC 1123 subdomain, at most 253: most objects."""
    return _shaped(name, _SUBDOMAIN_RE, _SUBDOMAIN_TEXT, SUBDOMAIN_MAX)


def wildcard_subdomain(name: str) -> list[str]:
    """`*.` before an RFC 1123 subdomain: hosts of an Ingress."""
    return _shaped(name, _WILDCARD_RE, _WILDCARD_TEXT, SUBDOMAIN_MAX)


def dns_1035_label(name: str) -> list[str]:
    """RFC 1035 label, at most 63: services."""
    return _shaped(name, _LABEL_1035_RE, _LABEL_1035_TEXT, LABEL_MAX)


def path_segment(name: str) -> list[str]:
    """Anything that fits between two slashes of a URL: RBAC objects."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{bad}'" for bad in "/%" if bad in name]


def qualified_name(name: str) -> list[str]:
    """`name` or `example.com/name`: label keys, resource names, finalizers."""
    prefix, slash, rest = name.rpartition("/")
    if "/" in prefix:
        text = f"a qualified name {_NAME_TEXT} with an optional DNS subdomain prefix and '/'"
        return [f"{text} (e.g. 'example.com/MyName')"]
    out: list[str] = []
    if slash and not prefix:
        out.append("prefix part must be non-empty")
    elif slash:
        out += [f"prefix part {why}" for why in dns_subdomain(prefix)]
    if not rest:
        out.append("name part must be non-empty")
    elif len(rest) > LABEL_MAX:
        out.append(f"name part {_limit(LABEL_MAX)}")
    if not _QUALIFIED_RE.fullmatch(rest):
        out.append(f"name part {_NAME_TEXT}")
    return out


def label_value(value: str) -> list[str]:
    """Value of a label, at most 63, may be empty."""
    out = [_limit(LABEL_MAX)] if len(value) > LABEL_MAX else []
    if not _VALUE_RE.fullmatch(value):
        out.append(_VALUE_TEXT)
    return out


def env_name(name: str) -> list[str]:
    """Name of an environment variable: printable ASCII without `=` (Kubernetes 1.32 and later)."""
    if _ENV_RE.fullmatch(name):
        return []
    return [
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
    ]


def config_key(key: str) -> list[str]:
    """Key of a ConfigMap or Secret: it becomes a file name."""
    out = _shaped(key, _CONFIG_KEY_RE, _CONFIG_KEY_TEXT, SUBDOMAIN_MAX)
    if key in (".", ".."):
        out.append(f"must not be '{key}'")
    elif key.startswith(".."):
        out.append("must not start with '..'")
    return out


def port_name(name: str) -> list[str]:
    """IANA service name, at most 15."""
    out: list[str] = []
    if len(name) > 15:
        out.append("must be no more than 15 characters")
    if not _PORT_NAME_RE.fullmatch(name):
        out.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        out.append("must contain at least one letter (a-z)")
    if "--" in name:
        out.append("must not contain consecutive hyphens")
    if name[:1] == "-" or name[-1:] == "-":
        out.append("must not begin or end with a hyphen")
    return out


def as_prefix(name: str) -> str:
    """Return `generateName` as the name check sees it: the trailing dash gets a random suffix later."""
    return name[:-1] + "a" if len(name) > 1 and name.endswith("-") else name


SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""What random parts of names are made of, as upstream: no vowels and no look-alikes, so no words."""
SUFFIX_LENGTH = 5
_MAX_PREFIX = 58


def generated_name(prefix: str, suffix: str) -> str:
    """Return a name for `generateName`; long prefixes are cut so that the name stays a label."""
    return prefix[:_MAX_PREFIX] + suffix
