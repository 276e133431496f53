"""Finding a container's command, with the errors and exit codes of OCI runtimes and shells."""

from __future__ import annotations

import os
import stat

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class CommandError(Exception):
    """The command cannot be run: 127 when it is not there, 126 when it is not executable, else 128."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.message = message


def find_command(name: str, path: str | None) -> str:
    """Return the file to execute for `name`, searched in `path` unless it has a slash. Raises CommandError."""
    if not name:
        raise CommandError(127, 'exec: "": executable file not found in $PATH')
    if "/" in name:
        try:
            mode = os.stat(name).st_mode
        except OSError as error:
            code = 127 if isinstance(error, (FileNotFoundError, NotADirectoryError)) else 126
            reason = (error.strerror or "").lower()
            raise CommandError(code, f'exec: "{name}": stat {name}: {reason}') from None
        if stat.S_ISDIR(mode):
            raise CommandError(126, f'exec: "{name}": is a directory')
        if not os.access(name, os.X_OK):
            raise CommandError(126, f'exec: "{name}": permission denied')
        return name
    refused = False
    for directory in (path or DEFAULT_PATH).split(":"):
        candidate = os.path.join(directory or ".", name)
        if os.path.isfile(candidate):
            if os.access(candidate, os.X_OK):
                return candidate
            refused = True
    if refused:
        raise CommandError(126, f'exec: "{name}": permission denied')
    raise CommandError(127, f'exec: "{name}": executable file not found in $PATH')
