"""Where the files of a container are, that it knows by paths at which nothing is mounted. Pure.

Without a mount namespace `/data` is not the volume. So what a command is given as text, its arguments, environment and
working directory, has the real directories in place of such paths.
"""

from __future__ import annotations

import posixpath
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_NOT_BEFORE = r"(?<![\w.\-/})\]*?~$@])"
"""A path that begins in the middle of a word, of another path or behind an expansion is another one."""
_NOT_AFTER = r"(?![\w.\-])"


class Places:
    """`found` are real paths by the path that a container knows."""

    def __init__(self, found: Mapping[str, str]) -> None:
        self._found = {posixpath.normpath(path): real for path, real in found.items()}
        self._found.pop("/", None)
        longest = sorted(self._found, key=len, reverse=True)
        pattern = "|".join(re.escape(path) for path in longest)
        self._pattern = re.compile(f"{_NOT_BEFORE}(?:{pattern}){_NOT_AFTER}") if longest else None

    def in_text(self, text: str) -> str:
        """Return the text with the real path in place of each that it names, and of those below it."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._found[match[0]], text)

    def of_path(self, path: str) -> str | None:
        """Return where an absolute path leads; None for one that is at or below none of the places."""
        path = posixpath.normpath(path)
        above = path
        while above != "/":
            if above in self._found:
                return self._found[above] + path[len(above) :]
            above = posixpath.dirname(above)
        return None
