"""Which authorities a connection trusts, and when they are read."""

from __future__ import annotations

import ssl
import subprocess
import sys

import pytest

from trainshed.client.authorities import read_later


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[ssl.Purpose]:
    """Return the purposes for which the system's authorities have been read."""
    asked: list[ssl.Purpose] = []

    def load(context: ssl.SSLContext, purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH) -> None:
        asked.append(purpose)

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", load)
    return asked


def test_the_systems_authorities_are_read_before_the_first_connection_and_once(
    read: list[ssl.Purpose],
) -> None:
    with read_later():
        context = ssl.create_default_context()
    assert read == []
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    for _ in range(2):
        context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="example.org")
    assert read == [ssl.Purpose.SERVER_AUTH]


def test_contexts_that_are_made_before_or_after_are_as_ever(read: list[ssl.Purpose]) -> None:
    with read_later():
        pass
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_default_certs(ssl.Purpose.CLIENT_AUTH)
    ssl.create_default_context()
    assert read == [ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH]
    with read_later():
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)
    assert read[2:] == [ssl.Purpose.CLIENT_AUTH]


def test_a_command_reads_no_authorities_of_the_system() -> None:
    """aiohttp makes its contexts as it is imported; they verify whom they always did once they are used."""
    program = """
import ssl
asked = []
load = ssl.SSLContext.load_default_certs
ssl.SSLContext.load_default_certs = lambda *given: (asked.append(1), load(*given))
import trainshed.client.http, aiohttp.connector
assert not asked, "read at import"
for context in vars(aiohttp.connector).values():
    if isinstance(context, ssl.SSLContext) and context.verify_mode == ssl.CERT_REQUIRED:
        context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="example.org")
assert len(asked) == 1, asked
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
