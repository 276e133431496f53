"""Start a run: the objects of a pipeline for a target, and their way onto the cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from trainshed.client.client import Client
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, namespace_of, section, uid_of
from trainshed.pipelines.emit import local, tekton
from trainshed.pipelines.emit.options import Options
from trainshed.pipelines.ir import Pipeline
from trainshed.sdk.apply import apply_all
from trainshed.sdk.connection import Target
from trainshed.sdk.errors import UserError
from trainshed.sdk.gone import wait_gone
from trainshed.sdk.notebook import refuse_too_large
from trainshed.tekton import conditions
from trainshed.tekton.resources import PIPELINERUNS


async def start(client: Client, objects_: Sequence[Object]) -> Object:
    """Create the run and what it refers to; a finished run of that name goes first. Return the run.

    Raises:
        UserError: a run of that name is under way, or the cluster has no Tekton.
        ApiError: what the server refused.
    """
    *others, run = objects_
    namespace = namespace_of(run) or client.namespace
    name = section(run, "metadata").get("name")
    if name:
        await _make_room(client, str(name), namespace)
    for other in others:
        await apply_all(client, [other], namespace)
    try:
        return await client.create(PIPELINERUNS, run, namespace=namespace)
    except ApiError as error:
        if error.code == 404:
            raise UserError(
                "this cluster serves no PipelineRuns of tekton.dev/v1",
                "install Tekton, or run without --context",
            ) from error
        raise


async def _make_room(client: Client, name: str, namespace: str) -> None:
    try:
        before = await client.get(PIPELINERUNS, name, namespace)
    except ApiError as error:
        if error.code == 404:
            return
        raise
    if not conditions.is_done(before) and not section(before, "metadata").get("deletionTimestamp"):
        raise UserError(
            f"the run {name} is under way",
            f"give another --run-name, or kubectl delete pipelinerun {name} -n {namespace}",
        )
    await client.delete(PIPELINERUNS, name, namespace, propagation_policy="Foreground", uid=uid_of(before))
    await wait_gone(client, PIPELINERUNS, name, namespace)


def emitted(
    pipeline: Pipeline, target: Target, options: Options, notebook: Path | None = None
) -> list[Object]:
    """Return the objects that run a pipeline once on the target: here its steps run in the notebook's directory.

    Raises NotebookError for programs that do not fit.
    """
    refuse_too_large(pipeline)
    options = msgspec.structs.replace(options, namespace=target.namespace)
    if target.is_local:
        own = str(notebook.resolve().parent) if notebook is not None else None
        return local.emit(pipeline, msgspec.structs.replace(options, python=sys.executable, directory=own))
    return tekton.emit(pipeline, options)
