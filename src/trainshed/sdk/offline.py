"""What an API server would say to an object, without a server: schemas, defaults and rules are those of the kinds.

Pure. What depends on other objects (quotas, names that are taken) nobody knows here.
"""

from __future__ import annotations

import difflib
from functools import cache

from trainshed.api.crd import crd
from trainshed.api.kind import Kind
from trainshed.api.registry import KINDS, is_of_our_groups, kind_of
from trainshed.api.verdict import Verdict
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.registry import review
from trainshed.kube.meta import errors
from trainshed.kube.meta.errors import ApiError, Cause
from trainshed.kube.meta.objects import Object, copy_tree, name_of
from trainshed.kube.schema.decode import cannot_handle, conform
from trainshed.kube.schema.definitions import definition_name
from trainshed.kube.schema.nodes import SchemaNode, builtin, from_crd
from trainshed.kube.schema.rules import broken_rules
from trainshed.kube.schema.structural import apply_defaults, validate
from trainshed.sdk.errors import UserError

NOT_YET = {
    "TrainJob": "this release runs the kinds of kubeflow.org/v1",
    "Notebook": "there are no notebook servers: submit jobs from a Jupyter of your own, and run a tagged notebook"
    " as a pipeline by trainshed notebook run",
    "Profile": "there are no profiles: kubectl create namespace makes what a job needs of one",
    "Experiment": "Katib's experiments are not there",
    "InferenceService": "KServe is not there",
}
"""Kinds that people have manifests of and that nobody acts on, with what to say."""


def admitted(
    kind: Kind, job: Object, options: OperatorOptions | None = None
) -> tuple[Object, tuple[str, ...]]:
    """Return the object as an API server stores it, and its warnings. Raises ApiError where it would refuse it.

    `options` are those of the operator; without them nothing is said that depends on them.
    """
    schema = crd_schema(kind)
    kept, _ = conform(job, schema, mode="strict", what=f"{kind.name} {name_of(job)}", builtin=False)
    kept = apply_defaults(kept, schema)
    found = validate(kept, schema) or broken_rules(kept, None, schema)
    if found:
        raise errors.invalid(kind.name, kind.group, name_of(job), found)
    verdict = _reviewed(kind, kept, options)
    if verdict.errors:
        causes = [Cause("FieldValueInvalid", str(error), error.path) for error in verdict.errors]
        raise ApiError(403, "Forbidden", kind.denied(verdict.errors), causes=causes)
    return kept, verdict.warnings


def warnings_of(obj: Object, options: OperatorOptions | None = None) -> tuple[str, ...]:
    """Return what the kind's own rules warn of, for an object that a server takes; `options` as for `admitted`."""
    kind = kind_of(obj)
    return () if kind is None else _reviewed(kind, obj, options).warnings


def judge(obj: Object, namespace: str, options: OperatorOptions | None = None) -> tuple[str, ...]:
    """Return the warnings about an object that would be taken. Kinds that are not known are taken.

    `options` are those of the operator, as for `admitted`.

    Raises:
        ApiError: it would be refused, in the server's words.
        UserError: nothing has such a kind; the hint names the nearest.
    """
    kind = kind_of(obj)
    if kind is not None:
        return admitted(kind, obj, options)[1]
    gvk = _gvk(obj)
    if definition_name(gvk) is not None:
        _judge_builtin(obj, gvk, namespace)
        return ()
    if is_of_our_groups(obj) or "." not in gvk[0] or nearest_kind(obj):
        raise UserError(
            f'no matches for kind "{obj["kind"]}" in version "{obj["apiVersion"]}"', nearest_kind(obj)
        )
    return (f"{obj['apiVersion']} {obj['kind']} is not known here: nothing of it was checked",)


def _reviewed(kind: Kind, obj: Object, options: OperatorOptions | None) -> Verdict:
    return kind.validate(obj, None) if options is None else review(kind, obj, None, options)


def _judge_builtin(obj: Object, gvk: tuple[str, str, str], namespace: str) -> None:
    from trainshed.kube.builtin.registry import BUILTINS, default_object, validate_object

    info = next(
        (
            each.info.resource
            for each in BUILTINS
            if (each.info.resource.group, each.info.resource.version, each.info.resource.kind) == gvk
        ),
        None,
    )
    kept, _ = conform(obj, builtin(gvk), mode="strict", what=cannot_handle(gvk[2], gvk[1]), builtin=True)
    if info is None:
        return
    kept = copy_tree(kept)
    if info.namespaced and not kept["metadata"].get("namespace"):
        kept["metadata"]["namespace"] = namespace
    found = validate_object(info, default_object(info, kept), None)
    if found:
        raise errors.invalid(gvk[2], gvk[0], name_of(obj), found)


def schema_of(obj: Object) -> SchemaNode | None:
    """Return the schema of the object's kind, None where it is not known."""
    kind = kind_of(obj)
    if kind is not None:
        return crd_schema(kind)
    gvk = _gvk(obj)
    return builtin(gvk) if definition_name(gvk) is not None else None


def nearest_kind(obj: Object) -> str:
    """Return a hint for a kind that nobody has, empty where nothing is near."""
    name = str(obj["kind"])
    if name in NOT_YET:
        return NOT_YET[name]
    if name in KINDS:
        return f"did you mean apiVersion {KINDS[name].api_version}?"
    near = difflib.get_close_matches(name, KINDS, n=1, cutoff=0.7)
    return f"did you mean {near[0]} ({KINDS[near[0]].api_version})?" if near else ""


def _gvk(obj: Object) -> tuple[str, str, str]:
    group, _, version = str(obj["apiVersion"]).rpartition("/")
    return group, version, str(obj["kind"])


@cache
def crd_schema(kind: Kind) -> SchemaNode:
    """Return the schema of a kind that we own."""
    return from_crd(crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
