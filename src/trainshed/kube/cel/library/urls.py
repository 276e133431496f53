"""URLs. Source: the Kubernetes documentation, "CEL in Kubernetes"; Go's `net/url` for what is one, and for errors."""

from __future__ import annotations

import re
from typing import ClassVar
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

from trainshed.kube.cel.library.overloads import function, member
from trainshed.kube.cel.library.strings import quoted
from trainshed.kube.cel.values import EvaluationError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_HOST_ESCAPE = re.compile(r"%(?!25)[0-7][0-9A-Fa-f]")
_BAD_HOST = re.compile(r"[^A-Za-z0-9!$&'()*+,;=:\[\]<>\"\-_.~%\x80-\U0010ffff]")
_PORT = re.compile(r"(?::[0-9]*)?")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_AS_WRITTEN = re.compile(r"[A-Za-z0-9\-_.~!$&'()*+,;=:@\[\]/%]*")
_PATH_SAFE = "$&+,/:;=@-_.~"


class URL(msgspec.Struct, frozen=True):
    """A URL, or a path without a server."""

    type_name: ClassVar[str] = "kubernetes.URL"
    scheme: str
    host: str
    path: str
    """As it was written."""
    query: str
    rest: str = ""
    """What tells it from others besides: the user, the fragment."""


def _check_escapes(text: str) -> None:
    bad = _BAD_ESCAPE.search(text)
    if bad:
        raise ValueError(f"invalid URL escape {quoted(bad[0])}")


def read(text: str, *, fragments: bool = False) -> URL:
    """Return a URL that is absolute or a path that begins with a slash. ValueError: it is neither, in Go's words."""
    if any(sign < " " or sign == "\x7f" for sign in text):
        raise ValueError("net/url: invalid control character in URL")
    if not text:
        raise ValueError("empty url")
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    fragment = ""
    if fragments:
        text, _, fragment = text.partition("#")
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    rest, _, query = text[match.end() if match else 0 :].partition("?")
    if not rest.startswith("/"):
        if not scheme:
            raise ValueError("invalid URI for request")
        return URL(scheme, "", "", query, rest)
    user = host = ""
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, at, host = authority.rpartition("@")
        _check_host(host)
        if at and not _USER.fullmatch(user):
            raise ValueError("net/url: invalid userinfo")
    _check_escapes(rest)
    return URL(scheme, host, rest, query, f"{user}#{fragment}")


def _check_host(host: str) -> None:
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise ValueError("missing ']' in host")
        port = host[end + 1 :]
    else:
        port = host[host.rfind(":") :] if ":" in host else ""
    if not _PORT.fullmatch(port):
        raise ValueError(f"invalid port {quoted(port)} after host")
    _check_escapes(host)
    escape = _HOST_ESCAPE.search(host)
    if escape:
        raise ValueError(f"invalid URL escape {quoted(escape[0])}")
    bad = _BAD_HOST.search(host)
    if bad:
        raise ValueError(f"invalid character {quoted(bad[0])} in host name")


def fault(text: str) -> str:
    """Return what is wrong with a URL in Go's words, empty where it is one."""
    try:
        read(text)
    except ValueError as error:
        return f"parse {quoted(text)}: {error}"
    return ""


@function("url", str)
def _url(text: str) -> URL:
    said = fault(text)
    if said:
        raise EvaluationError(f"URL parse error during conversion from string: {said}")
    return read(text, fragments=True)


def _split_host(held: URL) -> tuple[str, str]:
    host, colon, port = held.host.rpartition(":")
    if not colon or not _PORT.fullmatch(f":{port}"):
        host, port = held.host, ""
    return (host[1:-1] if host.startswith("[") and host.endswith("]") else host), port


def _escaped_path(held: URL) -> str:
    if _AS_WRITTEN.fullmatch(held.path):
        return held.path
    return quote_from_bytes(unquote_to_bytes(held.path), safe=_PATH_SAFE)


def _query(held: URL) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for pair in held.query.split("&"):
        if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
            continue
        key, _, value = pair.partition("=")
        out.setdefault(_unescaped(key), []).append(_unescaped(value))
    return out


def _unescaped(text: str) -> str:
    return unquote_to_bytes(text.replace("+", " ")).decode(errors="replace")


function("isURL", str)(lambda text: not fault(text))
member("getScheme", URL)(lambda held: held.scheme)
member("getHost", URL)(lambda held: held.host)
member("getHostname", URL)(lambda held: _split_host(held)[0])
member("getPort", URL)(lambda held: _split_host(held)[1])
member("getEscapedPath", URL)(_escaped_path)
member("getQuery", URL)(_query)
