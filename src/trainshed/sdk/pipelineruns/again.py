"""Go on from a step of an earlier run: the steps from there on, on the data of that run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from trainshed.client.client import Client
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, name_of, namespace_of, objects, section
from trainshed.kube.meta.ownership import controller_reference
from trainshed.kube.meta.resources import PERSISTENTVOLUMECLAIMS
from trainshed.pipelines.emit.job import DATA
from trainshed.pipelines.ir import Pipeline
from trainshed.pipelines.notebook.stepnames import resource_name
from trainshed.sdk.errors import UserError
from trainshed.sdk.notebook import step_of
from trainshed.sdk.pipelineruns.data import data_claim, given_parameters
from trainshed.sdk.pipelineruns.steps import states
from trainshed.tekton.resources import CUSTOMRUNS, LABEL_PIPELINE_RUN, PIPELINERUNS, TASKRUNS


def _task_in(value: str) -> str:
    parts = value.split(".")
    return parts[1] if len(parts) > 1 else ""


def with_data_of(
    objects_: Sequence[Object], before: Object, keep: Mapping[str, bool], claim: str
) -> list[Object]:
    """Return the objects of a run of the steps to `keep` only, on the data and with the parameters of an earlier run.

    Raises:
        UserError: the pipeline is not inline.
    """
    *others, run = objects_
    spec = section(run, "spec")
    pipeline = section(spec, "pipelineSpec")
    if not pipeline:
        raise UserError("--from takes a run with its pipeline in it")
    kept = [t for t in objects(pipeline, "tasks") if keep.get(str(t.get("name")))]
    names = {str(t["name"]) for t in kept}
    for task in kept:
        after = [name for name in task.get("runAfter") or () if name in names]
        task.pop("runAfter", None)
        if after:
            task["runAfter"] = after
        for param in objects(task, "params"):
            if param.get("name") == "trainshed-run":
                param["value"] = name_of(before)  # whose data it is, so that its pickles may be loaded
    pipeline["tasks"] = kept
    declared = {str(param["name"]) for param in objects(pipeline, "params")}
    params = given_parameters(before) | given_parameters(run)
    if declared & params.keys():
        spec["params"] = [
            {"name": name, "value": value} for name, value in sorted(params.items()) if name in declared
        ]
    results = [r for r in objects(pipeline, "results") if _task_in(str(r.get("value"))) in names]
    pipeline.pop("results", None)
    if results:
        pipeline["results"] = results
    spec["workspaces"] = [
        {"name": w["name"], "persistentVolumeClaim": {"claimName": claim}} if w.get("name") == DATA else w
        for w in objects(spec, "workspaces")
    ]
    metadata = section(run, "metadata")
    metadata.pop("name", None)
    metadata["generateName"] = f"{name_of(before)}-again-"
    owner = controller_reference(before)  # it goes when the run goes whose data it works on
    metadata["ownerReferences"] = [{**owner, "controller": False, "blockOwnerDeletion": False}]
    return [*others, run]


async def last_run(client: Client, name: str) -> Object:
    """Return the run of that name. Raises UserError when there is none."""
    try:
        return await client.get(PIPELINERUNS, name, client.namespace)
    except ApiError as error:
        if error.code != 404:
            raise
        raise UserError(f"there is no run {name} to go on from", "run the whole notebook first") from error


async def again(
    client: Client, pipeline: Pipeline, objects_: Sequence[Object], first: str
) -> tuple[Pipeline, list[Object]]:
    """Return the pipeline of a step and all that wait for it, and its objects, on the data of the last run.

    Raises:
        UserError: there is no such step, no last run, or a step before it that has not succeeded.
    """
    step_of(pipeline, first)
    wanted = {first}
    for step in pipeline.steps:
        if wanted & set(step.previous):
            wanted.add(step.name)
    before = await last_run(client, str(section(objects_[-1], "metadata").get("name")))
    found = await client.list(
        TASKRUNS, namespace_of(before), label_selector=f"{LABEL_PIPELINE_RUN}={name_of(before)}"
    )
    custom = await client.list(
        CUSTOMRUNS, namespace_of(before), label_selector=f"{LABEL_PIPELINE_RUN}={name_of(before)}"
    )
    stand = {s.name: s.state for s in states(pipeline, before, [*found.items, *custom.items])}
    needed = {i.step for step in pipeline.steps if step.name in wanted for i in step.inputs} - wanted
    missing = sorted(name for name in needed if stand.get(name) != "succeeded")
    if missing:
        raise UserError(
            f"step {missing[0]} has not succeeded in the run {name_of(before)}",
            f"--from {missing[0]} runs it again",
        )
    keep = {resource_name(name): True for name in wanted}
    claim = data_claim(before)
    try:
        await client.get(PERSISTENTVOLUMECLAIMS, claim, namespace_of(before))
    except ApiError as error:
        raise UserError(
            f"the run {name_of(before)} has no data any more", "run the whole notebook"
        ) from error
    smaller = msgspec.structs.replace(
        pipeline,
        steps=tuple(
            msgspec.structs.replace(step, previous=tuple(p for p in step.previous if p in wanted))
            for step in pipeline.steps
            if step.name in wanted
        ),
    )
    return smaller, with_data_of(objects_, before, keep, claim)
