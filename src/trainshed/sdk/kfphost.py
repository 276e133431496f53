"""Kubeflow Pipelines elsewhere: upload a compiled pipeline and run it, with KFP's own client."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Mapping
from pathlib import Path

from trainshed.pipelines.ir import Pipeline
from trainshed.sdk.errors import UserError


def upload(
    text: str, host: str, pipeline: Pipeline, parameters: Mapping[str, str], run_name: str | None
) -> str:
    """Run a compiled pipeline at `host` and return the address of the run.

    Raises:
        UserError: the package kfp is missing, or the host does not take it.
    """
    try:
        from kfp import client
    except ImportError as error:
        raise UserError(
            f"--kfp-host needs the package kfp: {error}", "pip install 'trainshed[kfp]'"
        ) from error
    types = {p.name: p.type for p in pipeline.parameters}
    arguments = {name: _typed(name, types[name], value) for name, value in parameters.items()}
    with tempfile.TemporaryDirectory(prefix="trainshed-kfp-") as folder:
        file = Path(folder) / "pipeline.yaml"
        file.write_text(text)
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it prints addresses in its own way
                made = client.Client(host=host).create_run_from_pipeline_package(
                    str(file), arguments=arguments, run_name=run_name or pipeline.name
                )
        except (
            Exception
        ) as error:  # of urllib3, of the generated client, of its checks: all say what is wrong
            first = str(error).strip().partition("\n")[0]
            raise UserError(
                f"{host} does not take the pipeline: {first}", "is it the address of KFP's API?"
            ) from error
    return f"{host.rstrip('/')}/#/runs/details/{made.run_id}"


def _typed(name: str, type_: str, text: str) -> int | float | str | bool:
    """Return a parameter as KFP takes it: not as text but as its type."""
    try:
        if type_ == "bool":
            return {"true": True, "false": False}[text.lower()]
        if type_ == "int":
            return int(text)
        return float(text) if type_ == "float" else text
    except (KeyError, ValueError):
        raise UserError(f"parameter {name}: must be {type_}, not {text!r}") from None
