"""Kubeflow Pipelines elsewhere: upload a compiled pipeline and run it, with KFP's own client."""

from __future__ import annotations

import contextlib
import hashlib
import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trainshed.pipelines.ir import Pipeline
from trainshed.sdk.errors import UserError

if TYPE_CHECKING:
    from kfp.client import Client

_DEFAULT_EXPERIMENT = "Default"


class Uploaded(msgspec.Struct, frozen=True):
    """What a host of KFP has: the version of the pipeline, and the address of its run."""

    version: str
    address: str


def upload(
    text: str,
    host: str,
    pipeline: Pipeline,
    parameters: Mapping[str, str],
    run_name: str | None,
    namespace: str | None = None,
) -> Uploaded:
    """Upload a compiled pipeline to `host` and run it there.

    A pipeline of that name gets another version, unless it has one with the same text. The run is of the experiment
    that the notebook names, or of KFP's default one.

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
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints addresses in its own way
            there = client.Client(host=host)
            pipeline_id, version_id, version = _version(there, text, pipeline, namespace)
            experiment = there.create_experiment(
                pipeline.settings.experiment or _DEFAULT_EXPERIMENT, namespace=namespace
            )
            run = there.run_pipeline(
                experiment.experiment_id,
                run_name or pipeline.name,
                params=arguments,
                pipeline_id=pipeline_id,
                version_id=version_id,
            )
    except Exception as error:  # of urllib3, of the generated client, of its checks: all say what is wrong
        first = str(error).strip().partition("\n")[0]
        raise UserError(
            f"{host} does not take the pipeline: {first}", "is it the address of KFP's API?"
        ) from error
    return Uploaded(version, f"{host.rstrip('/')}/#/runs/details/{run.run_id}")


def _version(there: Client, text: str, pipeline: Pipeline, namespace: str | None) -> tuple[str, str, str]:
    """Return the ids of the pipeline and of its version with this text, and the version's name."""
    name = f"{pipeline.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    with tempfile.TemporaryDirectory(prefix="trainshed-kfp-") as folder:
        file = Path(folder) / "pipeline.yaml"
        file.write_text(text)
        known = there.get_pipeline_id(pipeline.name)
        if known is None:
            made = there.upload_pipeline(
                str(file), pipeline.name, pipeline.settings.description or None, namespace
            )
            (first,) = _versions(there, made.pipeline_id)
            return made.pipeline_id, first.pipeline_version_id, first.display_name
        for version in _versions(there, known):
            if version.display_name == name:
                return known, version.pipeline_version_id, name
        added = there.upload_pipeline_version(str(file), name, pipeline_id=known)
        return known, added.pipeline_version_id, name


def _versions(there: Client, pipeline_id: str) -> list[Any]:
    found: list[Any] = []
    page = ""
    while True:
        answer = there.list_pipeline_versions(pipeline_id, page_token=page, page_size=100)
        found += answer.pipeline_versions or ()
        page = answer.next_page_token or ""
        if not page:
            return found


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
