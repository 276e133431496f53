"""Which interpreter starts steps: this machine's, also in images that have none."""

from __future__ import annotations

import functools
import stat
import sys
import sysconfig
from pathlib import Path

from trainshed.tekton.taskpod import Carried, Entrypoint

_PROGRAM = Path(__file__).with_name("entrypoint.py")
_SYSTEM_PYTHON = "/usr/bin/python3"


_LIBRARIES = (
    "ld-linux",
    "libc.so",
    "libm.so",
    "libpython",
    "libdl.so",
    "libpthread.so",
    "librt.so",
    "libutil.so",
)
_CARRIED_TO = "/tekton-python"


def carried() -> Carried | None:
    """Return how this interpreter runs in images that have none: by its own loader, beside its libraries.

    None where its loader is not glibc's.
    """
    maps = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines()]
    files = {Path(fields[5]) for fields in maps if len(fields) == 6 and "/" in fields[5]}
    libraries = sorted(file for file in files if file.name.startswith(_LIBRARIES))
    loader = next((file for file in libraries if file.name.startswith("ld-linux")), None)
    if loader is None:
        return None
    python = Path(sys.executable).resolve()
    folders = list(dict.fromkeys(file.parent for file in libraries))
    places = {folder: f"{_CARRIED_TO}/libraries/{i}" for i, folder in enumerate(folders)}
    standard = Path(sysconfig.get_path("stdlib"))
    return Carried(
        (
            f"{places[loader.parent]}/{loader.name}",
            "--library-path",
            ":".join(places.values()),
            f"{_CARRIED_TO}/bin/{python.name}",
            "-I",
            "-S",
            "-c",
            _PROGRAM.read_text(),
        ),
        (
            (str(python.parent), f"{_CARRIED_TO}/bin"),
            (str(standard), f"{_CARRIED_TO}/lib/{standard.name}"),
            *((str(folder), place) for folder, place in places.items()),
        ),
    )


@functools.cache
def entrypoint() -> Entrypoint:
    """Return how steps are started: by what a step of any user may read, where there is such a thing.

    Looked up once, for the first step.
    """
    python = sys.executable
    if not _is_open(Path(python)) and Path(_SYSTEM_PYTHON).exists():
        python = _SYSTEM_PYTHON
    program = (str(_PROGRAM),) if _is_open(_PROGRAM) else ("-c", _PROGRAM.read_text())
    return Entrypoint(python, program, carried())


def _is_open(path: Path) -> bool:
    """Return whether every user may read the file: it, and all directories on the way to it."""
    real = path.resolve()
    return bool(real.stat().st_mode & stat.S_IROTH) and all(
        folder.stat().st_mode & stat.S_IXOTH for folder in (*path.absolute().parents, *real.parents)
    )
