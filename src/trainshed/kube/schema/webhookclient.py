"""Where a webhook is: the `clientConfig` of admission webhooks, conversion webhooks and the like.

Source: `apiserver/pkg/util/webhook/validation.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from trainshed.kube.meta import causes, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, section

_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2}).{0,2}")
_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]*:")
_FORM = "desired format: https://host[/path]"


def client_causes(config: Object, at: str) -> Iterator[Cause]:
    """Yield what is wrong with a `clientConfig` at the path `at`."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield causes.required(at, "exactly one of url or service is required")
    elif url is not None:
        yield from _url(str(url), f"{at}.url")
    else:
        yield from _service(section(config, "service"), f"{at}.service")


def _unparsed(url: str) -> str:
    """Return why Go does not take a text for a URL; empty where it does, or says the same as Python."""
    if escape := _BAD_ESCAPE.search(url):
        return f'parse "{url}": invalid URL escape "{escape[0]}"'
    if url.startswith(":"):
        return f'parse "{url}": missing protocol scheme'
    if not _SCHEME.match(url) and ":" in url.partition("/")[0]:
        return f'parse "{url}": first path segment in URL cannot contain colon'
    return ""


def _url(url: str, at: str) -> Iterator[Cause]:
    if why := _unparsed(url):
        yield causes.required(at, f"url must be a valid URL: {why}; {_FORM}")
        return
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        yield causes.required(at, f"url must be a valid URL: {error}; {_FORM}")
        return
    if parts.scheme != "https":
        yield causes.invalid(at, parts.scheme, f"'https' is the only allowed URL scheme; {_FORM}")
    if not parts.hostname:
        yield causes.invalid(at, parts.netloc, f"host must be specified; {_FORM}")
    if parts.username is not None:
        yield causes.invalid(at, parts.username, "user information is not permitted in the URL")
    if parts.fragment:
        yield causes.invalid(at, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield causes.invalid(at, parts.query, "query parameters are not permitted in the URL")


def _service(service: Object, at: str) -> Iterator[Cause]:
    for field, told in (("name", "namespace"), ("namespace", "name")):  # upstream takes one for the other
        if not service.get(field):
            yield causes.required(f"{at}.{told}", f"service {told} is required")
    port = service.get("port")
    if port is not None and not 1 <= port <= 65535:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        yield causes.invalid(f"{at}.port", port, text)
    yield from _path(str(service.get("path") or ""), f"{at}.path")


def _path(path: str, at: str) -> Iterator[Cause]:
    if path in ("", "/"):
        return
    if not path.startswith("/"):
        yield causes.invalid(at, path, "must start with a '/'")
    for number, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            yield causes.invalid(at, path, f"segment[{number}] may not be empty")
        for why in names.dns_subdomain(step) if step else ():
            yield causes.invalid(at, path, f"segment[{number}]: {why}")
