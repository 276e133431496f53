"""Where a webhook is: the `clientConfig` of admission webhooks, conversion webhooks and the like.

Source: `apiserver/pkg/util/webhook/validation.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from trainshed.kube.meta import causes, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, section

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


def _url(url: str, at: str) -> Iterator[Cause]:
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
    for field in ("name", "namespace"):
        if not service.get(field):
            yield causes.required(f"{at}.{field}", f"service {field} is required")
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
