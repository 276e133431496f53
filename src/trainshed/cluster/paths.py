"""Where the cluster keeps its state: one private directory per user.

    pki/  store.db  kubeconfig  controlplane.json  run/  pods/<uid>/  volumes/  images/  log/

It holds credentials and everything that pods wrote, so nobody else may look into it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

HOME_VARIABLE = "TRAINSHED_HOME"
DEFAULT_HOME = "~/.local/state/trainshed"
LONGEST_ROOT = 400
"""Bytes: SQLite takes paths of 512, and what overlayfs is told of one directory's layers has to fit in a page."""


class StateError(Exception):
    """The state directory cannot be used. `hint` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class StatePaths(msgspec.Struct, frozen=True):
    """Names below the state directory `root`. Nothing is created before `prepare`."""

    root: Path

    @classmethod
    def default(cls, environ: Mapping[str, str] | None = None) -> StatePaths:
        """Return the paths below `$TRAINSHED_HOME`, or the default place. An absolute path either way.

        Raises StateError where the user has no home directory to put it in, as in containers that choose a number.
        """
        chosen = (os.environ if environ is None else environ).get(HOME_VARIABLE) or DEFAULT_HOME
        try:
            return cls(Path(chosen).expanduser().absolute())
        except RuntimeError as error:
            raise StateError(
                f"user {os.geteuid()} has no home directory for the state directory",
                f"set HOME, or {HOME_VARIABLE} to a directory of yours",
            ) from error

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def store(self) -> Path:
        return self.root / "store.db"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def info(self) -> Path:
        """Which process the control plane is."""
        return self.root / "controlplane.json"

    @property
    def run(self) -> Path:
        """Sockets of the daemons."""
        return self.root / "run"

    @property
    def pods(self) -> Path:
        return self.root / "pods"

    @property
    def volumes(self) -> Path:
        return self.root / "volumes"

    @property
    def images(self) -> Path:
        return self.root / "images"

    @property
    def images_file(self) -> Path:
        return self.images / "images.json"

    @property
    def image_store(self) -> Path:
        return self.images / "store"

    @property
    def image_space(self) -> Path:
        """How much of the disk images may take, by `trainshed up --image-space`."""
        return self.images / "space.json"

    @property
    def builds(self) -> Path:
        """What builds of images that go on now have on disk."""
        return self.root / "builds"

    @property
    def build_caches(self) -> Path:
        """Directories of `RUN --mount=type=cache`."""
        return self.images / "caches"

    @property
    def gang_scheduler(self) -> Path:
        """What `trainshed up --gang-scheduler-name` was given last."""
        return self.root / "gang-scheduler"

    def kept_gang(self) -> str:
        """Return what `trainshed up --gang-scheduler-name` was given last; empty where it never was."""
        return _kept(self.gang_scheduler)

    @property
    def isolation(self) -> Path:
        """What `trainshed up --isolation` was given last."""
        return self.root / "isolation"

    def kept_isolation(self) -> Literal["namespaces", "plain"]:
        """Return what keeps pods apart: `namespaces` where nobody has said otherwise."""
        return "plain" if _kept(self.isolation) == "plain" else "namespaces"

    @property
    def pod_max_pids(self) -> Path:
        """What `trainshed up --pod-max-pids` was given last."""
        return self.root / "pod-max-pids"

    def kept_pids(self) -> int | None:
        """Return how many processes a pod may have, 0 for any number; None where nobody has said."""
        try:
            return max(0, int(self.pod_max_pids.read_text()))
        except (OSError, ValueError):
            return None

    @property
    def encryption(self) -> Path:
        """The EncryptionConfiguration that `trainshed up --encrypt-secrets` makes, with its key."""
        return self.root / "encryption.yaml"

    @property
    def encryption_file(self) -> Path:
        """Which EncryptionConfiguration `trainshed up` was given last."""
        return self.root / "encryption-provider-config"

    def kept_encryption(self) -> Path | None:
        """Return the EncryptionConfiguration in force; None where nothing is encrypted."""
        try:
            return Path(self.encryption_file.read_text())
        except (OSError, UnicodeDecodeError):
            return None

    @property
    def fake_nodes(self) -> Path:
        """How many fake nodes there are, and what becomes of their pods."""
        return self.root / "fake-nodes.json"

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def audit_log(self) -> Path:
        return self.log / "audit.log"

    def prepare(self) -> StatePaths:
        """Create the directories with mode 0700; return self.

        Raises:
            StateError: the directory belongs to somebody else, others may enter it, or it cannot be made.
        """
        if (length := len(os.fsencode(self.root))) > LONGEST_ROOT:
            raise StateError(
                f"the path of the state directory is too long: {length} bytes, of {LONGEST_ROOT}",
                f"set {HOME_VARIABLE} to a shorter one",
            )
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_private(self.root)
            for directory in (self.pki, self.run, self.pods, self.volumes, self.images, self.log):
                directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StateError(
                f"cannot use the state directory {self.root}: {error.strerror}",
                f"set {HOME_VARIABLE} to a directory that you may write to",
            ) from error
        return self


def _check_private(root: Path) -> None:
    """Refuse a directory that another user planted or may change: it would get our credentials."""
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode):
        if not root.is_dir():
            raise StateError(f"{root} is not a directory", f"set {HOME_VARIABLE} to a directory")
        found = root.stat()
    if found.st_uid != os.getuid():
        raise StateError(
            f"the state directory {root} belongs to user {found.st_uid}, not to you ({os.getuid()})",
            f"set {HOME_VARIABLE} to a directory of your own",
        )
    if found.st_mode & 0o077:
        raise StateError(
            f"other users may enter the state directory {root} (mode {stat.S_IMODE(found.st_mode):04o})",
            f"run: chmod 700 {root}",
        )


def _kept(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def write_private(path: Path, data: bytes) -> None:
    """Write a file with mode 0600, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
