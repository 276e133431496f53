"""A distributed step: a custom task that carries the job which does the work.

`DistributedStep` of `trainshed.dev/v1alpha1` is not stored by itself: Tekton makes a CustomRun of it. Whoever
reconciles that CustomRun creates `spec.job` with these replaced in every string: `$(params.NAME)` by the CustomRun's
parameters, and `$(workspaces.NAME.claim)` by the claim of its workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trainshed.pipelines.emit.options import Options
from trainshed.pipelines.emit.pod import PROGRAM_ANNOTATION, arguments, container, pod_volumes
from trainshed.pipelines.emit.program import RUNNER, program_text
from trainshed.pipelines.ir import Pipeline, Step
from trainshed.pipelines.notebook.steps import Distribution, resource_name

API_VERSION = "trainshed.dev/v1alpha1"
KIND = "DistributedStep"
DATA_PATH = "/trainshed/data"

Object = dict[str, Any]


def distributed_step(pipeline: Pipeline, step: Step, options: Options, exposed: Sequence[str]) -> Object:
    """Return the `taskSpec` of a distributed step."""
    assert step.distribution is not None
    labels = {**step.settings.labels, "trainshed.dev/step": resource_name(step.name)}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"labels": labels},
        "spec": {
            "strategy": step.distribution.strategy,
            "numWorkers": step.distribution.workers,
            "job": _job(pipeline, step, step.distribution, options, exposed, labels),
        },
    }


def _job(
    pipeline: Pipeline,
    step: Step,
    distribution: Distribution,
    options: Options,
    exposed: Sequence[str],
    labels: dict[str, str],
) -> Object:
    kind, container_name, command, replicas = _SHAPES[distribution.strategy]
    args = arguments(
        pipeline,
        step,
        exposed,
        data=DATA_PATH,
        run="$(params.trainshed-run)",
        attempt="0",
    )
    made = container(pipeline, step, options, container_name, command(options.python), args)
    made["volumeMounts"].append({"name": "data", "mountPath": DATA_PATH})
    claims = [v.name for v in pipeline.settings.volumes if v.size is not None]
    made["volumeMounts"] += [
        {"name": v.name, "mountPath": v.mount_path} for v in pipeline.settings.volumes if v.size is not None
    ]
    volumes = [
        *pod_volumes(pipeline),
        *(
            {"name": n, "persistentVolumeClaim": {"claimName": f"$(workspaces.{n}.claim)"}}
            for n in ("data", *claims)
        ),
    ]
    template = {
        "metadata": {
            "labels": labels,
            "annotations": {
                **step.settings.annotations,
                "sidecar.istio.io/inject": "false",
                PROGRAM_ANNOTATION: program_text(pipeline, step),
            },
        },
        "spec": {"containers": [made], "volumes": volumes},
    }
    spec: Object = {"runPolicy": {"cleanPodPolicy": "None", "backoffLimit": 0}}
    if kind == "PyTorchJob":
        spec["nprocPerNode"] = str(distribution.nproc_per_node)
    field, roles = replicas(distribution.workers)
    spec[field] = {
        role: {"replicas": count, "restartPolicy": "Never", "template": template}
        for role, count in roles
        if count
    }
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "spec": spec}


def _plain(python: str) -> list[str]:
    return [python, "-m", RUNNER]


def _torchrun(python: str) -> list[str]:
    return [python, "-m", "torch.distributed.run", "-m", RUNNER]


_Replicas = tuple[str, list[tuple[str, int]]]

_SHAPES: dict[str, tuple[str, str, Callable[[str], list[str]], Callable[[int], _Replicas]]] = {
    "MultiWorkerMirroredStrategy": (
        "TFJob",
        "tensorflow",
        _plain,
        lambda n: ("tfReplicaSpecs", [("Worker", n)]),
    ),
    "DDP": (
        "PyTorchJob",
        "pytorch",
        _torchrun,
        lambda n: ("pytorchReplicaSpecs", [("Master", 1), ("Worker", n - 1)]),
    ),
    "JAX": ("JAXJob", "jax", _plain, lambda n: ("jaxReplicaSpecs", [("Worker", n)])),
    "XGBoost": (
        "XGBoostJob",
        "xgboost",
        _plain,
        lambda n: ("xgbReplicaSpecs", [("Master", 1), ("Worker", n - 1)]),
    ),
}
"""Per strategy: kind, container name that the operator looks for, command, replicas."""
