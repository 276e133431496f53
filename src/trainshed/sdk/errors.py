"""What goes wrong, and what to tell the user: one table from exception to message, hint and exit code.

    UserError           something that the user can mend; carries its own hint and exit code
    └─ JobFailed        the job ended as Failed; carries the replica that failed first and its last lines
    ApiError            the API server refused                     (kube.meta.errors)
    TransportError      nothing answers                            (client.transport)
    ConfigError         the kubeconfig does not do                 (client.config)
    StateError          the state directory does not do            (cluster.paths)
    StartFailed         the control plane did not come up          (cluster.control.launcher)
    ImageProblem        an image that cannot be registered         (cluster.images.directories)
    InvalidReference    no name of an image                        (cluster.images.reference)
    InvalidImage        an image that is not as the format has it  (cluster.images.oci)
    RegistryError       a registry refused, or does not answer     (cluster.images.registry)
    CredentialsError    credentials for it cannot be read          (cluster.images.registry)
    UnknownImage        the store has no such image                (cluster.images.store)
    TimeoutError        what was waited for did not come
    OSError             only what no code can mend: no space, no permission, a broken disk

Everything else is our bug and has no explanation: let it be seen with its traceback.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    from trainshed.kube.meta.errors import ApiError
    from trainshed.sdk.summary import Failure

REFUSED = 1
"""Refused or failed."""
UNAVAILABLE = 3
"""The local node cannot do it; `trainshed doctor` says why."""


class UserError(Exception):
    """Something that the user can mend. `hint` says how; `exit_code` is one of this module's."""

    def __init__(self, message: str, hint: str = "", exit_code: int = REFUSED) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code


class JobFailed(UserError):
    """A job that was waited for ended as Failed. `failure` says which replica was first, why, and its last lines.

    Example:
        from pathlib import Path

        from trainshed import JobFailed, run

        try:
            run(Path("job.yaml").read_text().replace("exit 0", "echo no data; exit 7"))
        except JobFailed as error:
            print(error.failure.replica, error.failure.exit_code, error.failure.tail[-1])
    """

    def __init__(self, job: str, failure: Failure) -> None:
        super().__init__("\n".join((f"{job} failed", *failure.lines())))
        self.job = job
        self.failure = failure

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.job, self.failure)


class Explanation(msgspec.Struct, frozen=True):
    """What to tell the user: what is the matter, how to mend it (may be empty), and the exit code of a command."""

    message: str
    hint: str = ""
    exit_code: int = REFUSED


_HOME_HINT = "set TRAINSHED_HOME to a directory that you may write to"
_OF_THE_MACHINE = {
    errno.ENOSPC: "free some space, then try again",
    errno.EDQUOT: "free some space, then try again",
    errno.EROFS: _HOME_HINT,
    errno.EACCES: _HOME_HINT,
    errno.EIO: "the disk does not work: the kernel's messages (dmesg) say more",
}
"""Failures of the file system that no code can mend, and what the user can do."""


def explain(error: BaseException) -> Explanation | None:
    """Return what to tell the user about an expected failure; None for one that is our bug.

    Example:
        from trainshed import Cluster, UserError, explain

        try:
            Cluster().job("nosuch")
        except UserError as error:
            print(explain(error).message, explain(error).hint)
    """
    for kind, explanation in _explanations():
        if isinstance(error, kind):
            return explanation(error)
    return None


_Kinds: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]


def _explanations() -> list[tuple[_Kinds, Callable[[Any], Explanation | None]]]:
    """Return the table; the first row that fits counts. Imported here: only what failed has to be explained."""
    from trainshed.client.config import ConfigError
    from trainshed.client.transport import TransportError
    from trainshed.cluster.control.launcher import StartFailed
    from trainshed.cluster.images.directories import ImageProblem
    from trainshed.cluster.images.oci import InvalidImage
    from trainshed.cluster.images.reference import InvalidReference
    from trainshed.cluster.images.registry.credentials import CredentialsError
    from trainshed.cluster.images.registry.errors import RegistryError
    from trainshed.cluster.images.store.blobs import MissingBlob
    from trainshed.cluster.images.store.store import UnknownImage
    from trainshed.cluster.paths import StateError
    from trainshed.kube.meta.errors import ApiError

    return [
        (UserError, lambda e: Explanation(str(e), e.hint, e.exit_code)),
        (StateError, lambda e: Explanation(e.message, e.hint)),
        (StartFailed, lambda e: Explanation(str(e), e.hint, UNAVAILABLE)),
        (ApiError, lambda e: Explanation(_said(e), _of_the_server(e))),
        (
            TransportError,
            lambda e: Explanation(
                f"the API server does not answer: {e}", "trainshed up starts the local cluster"
            ),
        ),
        (ConfigError, lambda e: Explanation(str(e))),
        (ImageProblem, lambda e: Explanation(str(e))),
        (InvalidReference, lambda e: Explanation(str(e))),
        (UnknownImage, lambda e: Explanation(str(e), "trainshed image ls")),
        ((InvalidImage, MissingBlob), lambda e: Explanation(str(e))),
        ((RegistryError, CredentialsError), lambda e: Explanation(str(e))),
        (TimeoutError, lambda e: Explanation(str(e)) if str(e) else None),
        (OSError, _of_the_machine),
    ]


_UNTYPED = re.compile(
    r"failed to create typed patch object \((\S+); [^)]*Kind=(\w+)\): (?:errors:)?(.*)", re.DOTALL
)


def _said(error: ApiError) -> str:
    """Return what the server said, on one line; of an apply with wrong types only the object and its fields."""
    untyped = _UNTYPED.match(error.message)
    if untyped is None:
        return error.message or error.reason
    fields = "; ".join(line.strip().removeprefix(".") for line in untyped[3].strip().splitlines())
    return f"{untyped[2]} {untyped[1]}: {fields}"


def _of_the_server(error: ApiError) -> str:
    """Return what the user can do about a refusal, as far as that can be said without the object."""
    if error.reason == "Unauthorized":
        return "the cluster does not accept these credentials: they are old, or of another cluster"
    if error.code == 404 and error.details.get("kind") == "namespaces":
        return f"kubectl create namespace {error.details.get('name', '')}"
    if 'unknown field "' in error.message or "field not declared in schema" in error.message:
        return "trainshed check says which field may be meant"
    return ""


def _of_the_machine(error: OSError) -> Explanation | None:
    if error.errno not in _OF_THE_MACHINE:
        return None
    return Explanation(f"{error.filename or 'the disk'}: {error.strerror}", _OF_THE_MACHINE[error.errno])
