"""Identities of objects and requests."""

from __future__ import annotations

import random


def new_uid() -> str:
    """Return a random UUID (RFC 9562, version 4): unique, not a secret.

    `uuid.uuid4` asks the kernel and lets other threads run meanwhile, of which a server that answers thousands of
    requests a second has to wait for one each time.
    """
    bits = random.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62) | 4 << 76 | 2 << 62
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
