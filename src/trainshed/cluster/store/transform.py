"""What is done to objects on their way to the disk and back: the store in memory, and all above it, never see it."""

from __future__ import annotations

from typing import Protocol

MARK = b"k8s:enc:"
"""What a value begins with that is encrypted; JSON never does."""


class Undecipherable(ValueError):
    """No key that is at hand makes anything of a value. One sentence."""


class Transformer(Protocol):
    """Writes values in another form."""

    def written(self, key: str, value: bytes) -> bytes:
        """Return what is to be on the disk for the value of a key."""
        ...

    def read(self, key: str, value: bytes) -> bytes:
        """Return the value that is on the disk for a key. Raises Undecipherable."""
        ...

    def is_stale(self, key: str, value: bytes) -> bool:
        """Return whether what is on the disk for a key is of another form than would be written now."""
        ...


class Plain:
    """Leaves values as they are."""

    def written(self, key: str, value: bytes) -> bytes:
        return value

    def read(self, key: str, value: bytes) -> bytes:
        if value.startswith(MARK):
            how = value.split(b":", 5)[2:5]
            named = b" ".join((how[0], b"with the key", how[2])) if len(how) == 3 else b"an unknown way"
            raise Undecipherable(
                f"{key} is encrypted by {named.decode(errors='replace')}, and no key is at hand"
            )
        return value

    def is_stale(self, key: str, value: bytes) -> bool:
        return False


PLAIN = Plain()
