"""A token in the subprotocols of a WebSocket: browsers can set no other header.

Source: `apiserver/pkg/authentication/request/websocket/protocol.go` of Kubernetes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

PREFIX = "base64url.bearer.authorization.k8s.io."
"""Before a token in URL-safe base64 without padding."""


def split(offered: Sequence[str]) -> tuple[str, list[str]]:
    """Return the token among subprotocols, empty where there is none, and the others.

    Raises:
        ValueError: there are two tokens, one cannot be read, or nothing is offered besides.
    """
    encoded = [each.removeprefix(PREFIX) for each in offered if each.startswith(PREFIX)]
    others = [each for each in offered if not each.startswith(PREFIX)]
    if not encoded:
        return "", others
    if len(encoded) > 1:
        raise ValueError("multiple base64.bearer.authorization tokens specified")
    text = encoded[0]
    try:
        token = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError("invalid base64.bearer.authorization token encoding") from error
    if not others:
        raise ValueError("missing additional subprotocol")
    return token, others
