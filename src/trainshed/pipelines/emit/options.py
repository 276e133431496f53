"""What whoever runs a pipeline decides, and the notebook does not say."""

from __future__ import annotations

from typing import Literal

import msgspec

DEFAULT_IMAGE = "python:3.12"
"""The image of steps of which nothing says another: that of Kale 2."""


class Options(msgspec.Struct, frozen=True):
    """How to emit a pipeline.

    Without `run_name` the API server makes one up (`generateName`). `split` writes a Pipeline and a run that refers to
    it. `python` is the interpreter in the steps' images, which must have `trainshed[notebooks]`.
    """

    api: Literal["v1", "v1beta1"] = "v1"
    run_name: str | None = None
    namespace: str | None = None
    image: str | None = None
    python: str = "python"
    split: bool = False
    workers_as_tasks: bool = False
    service_account: str | None = None
    parameters: dict[str, str] = {}
    at_once: int | None = None
    """How many steps run at the same time on the local cluster; elsewhere as many as may."""
    prepare: bool = True
    """Whether pods of the next steps start before their turn on the local cluster, and wait."""
    directory: str | None = None
    """Directory of the node in which the steps run, and which they share; otherwise one of the run's own."""
