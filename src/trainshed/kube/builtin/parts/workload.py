"""What kinds with a pod template and a selector share: defaults, rules, cells.

Source of rules and texts: `pkg/apis/apps/validation` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from trainshed.kube.builtin.parts.columns import age, containers, template_spec
from trainshed.kube.builtin.parts.pod.defaults import pod_spec_defaults, setdefault
from trainshed.kube.builtin.parts.pod.rules import template_causes
from trainshed.kube.builtin.parts.pod.warnings import pod_warnings
from trainshed.kube.meta import causes, golang
from trainshed.kube.meta.errors import ApiError, Cause
from trainshed.kube.meta.objects import Object, metadata_of, name_of, section, spec_of, status_of
from trainshed.kube.meta.selectors import LabelSelector
from trainshed.kube.schema.metadata import annotations_causes, labels_causes, selector_causes

IMMUTABLE = "field is immutable"
COUNTS = "Name, Desired#, Current#, Ready#, Age, Containers*, Images*, Selector*"


def template_defaults(spec: Object) -> None:
    """Fill in the pod template of a workload's spec."""
    template = spec.get("template")
    if template is not None:  # a missing template stays missing: validation says so
        template.setdefault("metadata", {})
        pod_spec_defaults(setdefault(template, "spec", {}))


def replicated_causes(spec: Object, kind: str, *, judged: bool = True) -> Iterator[Cause]:
    """Yield what is wrong with a selector, its template and the two together; pods always restart.

    Of a template that is not `judged` only the labels and annotations are looked at.
    """
    selector, template = spec.get("selector"), spec.get("template")
    yield from selector_causes(selector, "spec.selector")
    empty = selector is not None and not any(selector.get(k) for k in ("matchLabels", "matchExpressions"))
    if selector is None and kind != "daemonset":
        yield causes.required("spec.selector")
    if empty:
        shown, called = golang.label_selector(selector), "deployment" if kind == "replicaset" else kind
        yield causes.invalid_shown("spec.selector", shown, f"empty selector is invalid for {called}")
    if template is None:
        yield causes.required("spec.template")
        return
    labels = section(template, "metadata", "labels")
    if not empty and not (selector and selects(selector, labels)):
        yield causes.invalid_shown(
            "spec.template.metadata.labels",
            golang.strings(labels),
            "`selector` does not match template `labels`",
        )
    if judged:
        yield from template_causes(template, "spec.template")
    else:
        yield from labels_causes(labels, "spec.template.labels")
        yield from annotations_causes(
            section(template, "metadata", "annotations"), "spec.template.annotations"
        )
    pod = spec_of(template)
    policy = pod.get("restartPolicy")
    if policy and policy != "Always":
        yield causes.unsupported("spec.template.spec.restartPolicy", policy, ("Always",))
    if pod.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        yield causes.forbidden("spec.template.spec.activeDeadlineSeconds", text)


def template_warnings(*path: str) -> Callable[[Object, Object | None], Iterator[str]]:
    """Return what yields the warnings of the pod template at `path`, when it is new or the object's spec changed."""

    def warns(obj: Object, old: Object | None) -> Iterator[str]:
        if is_new_or_changed(obj, old):
            yield from pod_warnings(section(obj, *path), ".".join((*path, "")))

    return warns


def is_new_or_changed(obj: Object, old: Object | None) -> bool:
    """Return whether there is no `old` object, or its spec is another."""
    return old is None or metadata_of(obj).get("generation") != metadata_of(old).get("generation")


def selects(selector: Object, labels: dict[str, str]) -> bool:
    """Return whether a LabelSelector object selects labels; true for one that is malformed, which has been said."""
    try:
        return LabelSelector.from_object(selector).matches(labels)
    except ApiError:
        return True  # what is wrong with the selector has been said


def fixed_causes(spec: Object, old: Object, *fields: str) -> Iterator[Cause]:
    """Yield the fields of a spec that may not change and did."""
    for field in fields:
        value = spec.get(field)
        if value != old.get(field):
            shown = golang.label_selector(value) if field == "selector" else causes.shown(value)
            yield causes.invalid_shown(f"spec.{field}", shown, IMMUTABLE)


def ready_of_desired(obj: Object) -> str:
    """Return the Ready cell of a workload: `2/3`."""
    return f"{status_of(obj).get('readyReplicas', 0)}/{spec_of(obj).get('replicas', 0)}"


def counts_row(obj: Object, now: float) -> list[Any]:
    """Return the cells of `COUNTS` up to Images."""
    return [
        name_of(obj),
        spec_of(obj).get("replicas", 0),
        status_of(obj).get("replicas", 0),
        status_of(obj).get("readyReplicas", 0),
        age(obj, now),
        *containers(template_spec(obj)),
    ]
