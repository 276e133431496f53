"""projected volumes: several sources in one directory. Pure; tokens are obtained before.

Used by every pod: the API server mounts a token, the CA certificate and the namespace this way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from trainshed.cluster.node.podfields import NodeFacts
from trainshed.cluster.node.references import References
from trainshed.cluster.node.volumes.atomic import File
from trainshed.cluster.node.volumes.configmap import DEFAULT_MODE, configmap_files, secret_files
from trainshed.cluster.node.volumes.downward_api import downward_files
from trainshed.cluster.node.volumes.volume import MountError
from trainshed.kube.meta.objects import Object

DEFAULT_EXPIRATION_SECONDS = 3600
REFRESH_FRACTION = 0.8
"""A token is renewed after this part of its life (pkg/kubelet/token)."""


class TokenRequest(msgspec.Struct, frozen=True):
    """A serviceAccountToken source."""

    audience: str
    expiration_seconds: int


class Token(msgspec.Struct, frozen=True):
    """An issued token, and when to renew it."""

    text: str
    refresh_at: float


def token_requests(source: Mapping[str, Any]) -> Iterator[TokenRequest]:
    """Yield the tokens that a projected source needs."""
    for part in source.get("sources") or ():
        if part.get("serviceAccountToken"):
            yield _request(part["serviceAccountToken"])


def projected_files(
    source: Mapping[str, Any],
    pod: Object,
    node: NodeFacts,
    references: References,
    tokens: Mapping[TokenRequest, Token],
) -> dict[str, File]:
    """Return the files of all sources; a later source wins a path. Raises MountError."""
    mode = source.get("defaultMode", DEFAULT_MODE)
    namespace = pod["metadata"].get("namespace", "")
    out: dict[str, File] = {}
    for part in source.get("sources") or ():
        if part.get("configMap"):
            out.update(configmap_files(part["configMap"], references, namespace, mode))
        elif part.get("secret"):
            out.update(secret_files(part["secret"], references, namespace, mode))
        elif part.get("downwardAPI") is not None:
            out.update(downward_files(part["downwardAPI"], pod, node, mode))
        elif part.get("serviceAccountToken"):
            token = tokens[_request(part["serviceAccountToken"])]
            out[part["serviceAccountToken"]["path"]] = File(token.text.encode(), mode)
        else:
            kinds = ", ".join(sorted(part)) or "nothing"
            raise MountError(f"projected source {kinds} is not supported by this node")
    return out


def _request(source: Mapping[str, Any]) -> TokenRequest:
    seconds = source.get("expirationSeconds") or DEFAULT_EXPIRATION_SECONDS
    return TokenRequest(source.get("audience") or "", int(seconds))
