"""The local cluster's context in the user's own kubeconfig: put in, taken out. A cluster's own file is never edited."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from trainshed.cluster.control import kubeconfig
from trainshed.cluster.control.kubeconfig import user_file as user_file
from trainshed.cluster.paths import StatePaths
from trainshed.sdk.errors import UserError

T = TypeVar("T")


def passed_over(environ: Mapping[str, str] | None = None) -> list[Path]:
    """Return the files that `KUBECONFIG` names and that are clusters' own: another one is edited instead."""
    named = (os.environ if environ is None else environ).get("KUBECONFIG", "").split(os.pathsep)
    return [Path(part) for part in named if part and kubeconfig.is_of_a_cluster(Path(part))]


def merge(paths: StatePaths, *, make_current: bool) -> Path:
    """Put the cluster's context into the user's kubeconfig, which is returned.

    Raises:
        UserError: that file is no kubeconfig, or the cluster's own is damaged. Then nothing was changed.
    """
    file = user_file()
    config = kubeconfig.own(paths)
    if config is None:
        raise UserError(f"{paths.kubeconfig} is damaged", "trainshed up writes it again")
    _editing(lambda: kubeconfig.merge(file, config, make_current=make_current))
    return file


def unmerge(paths: StatePaths) -> Path | None:
    """Take the cluster's context out of the user's kubeconfig, which is returned; None when it was not in it.

    Raises:
        UserError: that file is no kubeconfig. It was not changed.
    """
    file = user_file()
    return file if _editing(lambda: kubeconfig.unmerge(file, paths.root)) else None


def mend(paths: StatePaths, port: int) -> bool:
    """Write the running cluster's own kubeconfig again if somebody emptied or broke it; return whether it was so."""
    config = kubeconfig.of_cluster(paths, port)
    if kubeconfig.leads_to(paths.kubeconfig, config):
        return False
    kubeconfig.write(paths.kubeconfig, config)
    return True


def _editing(edit: Callable[[], T]) -> T:
    try:
        return edit()
    except (ValueError, OSError) as error:
        raise UserError(str(error), "name another file in KUBECONFIG") from error
