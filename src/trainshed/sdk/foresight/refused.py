"""Pods that an API server would not take, although it takes the job: the schema of a job knows little of pods."""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, copy_tree, metadata_of, section
from trainshed.kube.meta.resources import PODS
from trainshed.kube.schema.decode import conform
from trainshed.kube.schema.metadata import validate_metadata
from trainshed.kube.schema.nodes import builtin
from trainshed.sdk.foresight.findings import Noted
from trainshed.sdk.foresight.templates import PodTemplate
from trainshed.sdk.foresight.world import World

_POLICIES = {"ExitCode": "Never", None: "Never"}
"""What the pods of a training job have for the policies that only jobs know; a default is always a known one."""


def refused_pods(template: PodTemplate, world: World) -> Iterator[Noted]:
    """Yield what is wrong with the pods of a training job, in the words of the API server that will refuse them."""
    if not template.replica:
        return  # the template of a built-in kind is judged with its object
    # Of this kind alone: the registry of all of them costs a tenth of what a whole check takes.
    from trainshed.kube.builtin.core.pod import KIND

    assert KIND.defaults is not None and KIND.check is not None
    try:
        pod, _ = conform(_pod_of(template), builtin(("", "v1", "Pod")), mode="ignore", what="", builtin=True)
        pod = copy_tree(pod)
        KIND.defaults(pod)
        causes = [*validate_metadata(PODS, pod, None, KIND.name_rule), *KIND.check(pod, None, "")]
    except (ApiError, AttributeError, KeyError, TypeError, ValueError):
        return  # a document that the API server refuses
    for cause in causes:
        if (
            cause.field == "spec.restartPolicy"
        ):  # which the job says beside its template, and has a value more for
            message = cause.message.replace('"Always", ', '"Always", "ExitCode", ')
            yield Noted("TS601", f"{template.owner_path}restartPolicy", message)
        else:
            yield Noted("TS601", template.path + cause.field, cause.message)


def _pod_of(template: PodTemplate) -> Object:
    """Return one pod as the operator would make it, as far as a template says it."""
    metadata = metadata_of(template.pod)
    kept = {field: metadata[field] for field in ("labels", "annotations") if field in metadata}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod", "namespace": "default", **kept},
        "spec": {**template.spec, "restartPolicy": _restart_policy(template)},
    }


def _restart_policy(template: PodTemplate) -> object:
    for field, specs in section(template.owner, "spec").items():
        if template.path.startswith(f"spec.{field}[") and isinstance(specs, dict):
            policy = section(specs, template.replica).get("restartPolicy")
            return _POLICIES.get(policy, policy)
    return "Never"
