"""What goes wrong with a registry, apart from the client, which loads an HTTP library.

RegistryError    the registry refused, or cannot be reached    the message says what and where
"""

from __future__ import annotations


class RegistryError(Exception):
    """A registry did not do what it was asked. `status` is HTTP's, 0 without an answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
