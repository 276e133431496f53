"""Kernel parameters of a pod's own namespaces."""

from __future__ import annotations

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def write(parameters: Sequence[Sequence[str]]) -> None:
    """Set parameters, each a path below /proc/sys and its value, in the namespaces of this process.

    Raises:
        OSError: the kernel has no such parameter, has it for the whole machine only, or refuses the value; the text
            names the parameter.
    """
    for path, value in parameters:
        if ".." in path.split("/"):
            raise OSError(errno.EINVAL, f"sysctl {path!r} is no name")
        try:
            with open(f"/proc/sys/{path}", "w") as file:
                file.write(value)
        except OSError as error:
            name = path.replace("/", ".")
            raise OSError(error.errno, f"sysctl {name} cannot be {value!r}: {error.strerror}") from error
