"""The directory in which a step's code leaves files for later steps, as a worker other than the first has it.

Every worker runs the same cell and saves the same model. What the first one saves is what later steps read; the others
have a directory of their own that begins as the first one's is then.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def link(own: Path, first: Path) -> None:
    """Make this worker's directory look like the first one's: the same folders, with links for files, nothing else.

    A file that the worker writes anew takes the place of its link. Does nothing where both are one: a rank in the
    first worker's pod. Ranks of one pod share their directory, and only the first of them clears what an earlier
    attempt left.
    """
    if not first.is_dir() or not own.is_dir() or own.samefile(first):
        return
    if os.environ.get("LOCAL_RANK", "0") == "0":
        for old in own.iterdir():
            shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink(missing_ok=True)
    for root, _, files in os.walk(first):
        folder = own / Path(root).relative_to(first)
        folder.mkdir(exist_ok=True)
        for name in files:
            try:
                (folder / name).symlink_to(Path(root, name))
            except FileExistsError:
                continue
