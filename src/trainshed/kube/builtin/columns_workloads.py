"""Tables of the kinds that own pods: deployments, jobs and their kin, and what scales or guards them."""

from __future__ import annotations

from typing import Any

from trainshed.kube.builtin.parts.columns import (
    NONE,
    UNKNOWN,
    UNSET,
    Columns,
    age,
    containers,
    define,
    epoch,
    is_true,
    label_selector,
    labels,
    metadata,
    name,
    since,
    spec,
    status,
    template_spec,
)
from trainshed.kube.meta.duration import human
from trainshed.kube.meta.objects import Object


def _ready_of_desired(obj: Object) -> str:
    return f"{status(obj).get('readyReplicas', 0)}/{spec(obj).get('replicas', 0)}"


def _deployment(obj: Object, now: float) -> list[Any]:
    return [
        name(obj),
        _ready_of_desired(obj),
        status(obj).get("updatedReplicas", 0),
        status(obj).get("availableReplicas", 0),
        age(obj, now),
        *containers(template_spec(obj)),
        label_selector(spec(obj).get("selector")),
    ]


def _counts(obj: Object, now: float) -> list[Any]:
    return [
        name(obj),
        spec(obj).get("replicas", 0),
        status(obj).get("replicas", 0),
        status(obj).get("readyReplicas", 0),
        age(obj, now),
        *containers(template_spec(obj)),
    ]


def _replicaset(obj: Object, now: float) -> list[Any]:
    return [*_counts(obj, now), label_selector(spec(obj).get("selector"))]


def _replicationcontroller(obj: Object, now: float) -> list[Any]:
    return [*_counts(obj, now), labels(spec(obj).get("selector"))]


def _statefulset(obj: Object, now: float) -> list[Any]:
    return [name(obj), _ready_of_desired(obj), age(obj, now), *containers(template_spec(obj))]


def _daemonset(obj: Object, now: float) -> list[Any]:
    counts = status(obj)
    return [
        name(obj),
        counts.get("desiredNumberScheduled", 0),
        counts.get("currentNumberScheduled", 0),
        counts.get("numberReady", 0),
        counts.get("updatedNumberScheduled", 0),
        counts.get("numberAvailable", 0),
        labels(template_spec(obj).get("nodeSelector")),
        age(obj, now),
        *containers(template_spec(obj)),
        label_selector(spec(obj).get("selector")),
    ]


def _job_status(obj: Object) -> str:
    for finished in ("Complete", "Failed"):
        if is_true(obj, finished):
            return finished
    if metadata(obj).get("deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if is_true(obj, kind):
            return kind
    return "Running"


def _completions(obj: Object) -> str:
    succeeded = status(obj).get("succeeded", 0)
    completions, parallelism = spec(obj).get("completions"), spec(obj).get("parallelism") or 0
    if completions is not None:
        return f"{succeeded}/{completions}"
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(obj: Object, now: float) -> str:
    started, ended = epoch(status(obj).get("startTime")), epoch(status(obj).get("completionTime"))
    if started is None:
        return ""
    return human((now if ended is None else ended) - started)


def _job(obj: Object, now: float) -> list[Any]:
    return [
        name(obj),
        _job_status(obj),
        _completions(obj),
        _job_duration(obj, now),
        age(obj, now),
        *containers(template_spec(obj)),
        label_selector(spec(obj).get("selector")),
    ]


def _cronjob(obj: Object, now: float) -> list[Any]:
    job = (spec(obj).get("jobTemplate") or {}).get("spec") or {}
    suspend = spec(obj).get("suspend")
    return [
        name(obj),
        spec(obj).get("schedule", ""),
        spec(obj).get("timeZone") or NONE,
        UNSET if suspend is None else str(bool(suspend)),
        len(status(obj).get("active") or ()),
        since(status(obj).get("lastScheduleTime"), now, NONE),
        age(obj, now),
        *containers((job.get("template") or {}).get("spec")),
        label_selector(job.get("selector")),
    ]


def _controllerrevision(obj: Object, now: float) -> list[Any]:
    owner = next((o for o in metadata(obj).get("ownerReferences") or () if o.get("controller")), None)
    text = NONE
    if owner:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        kind = owner.get("kind", "").lower()
        text = f"{kind}.{group}/{owner.get('name', '')}" if group else f"{kind}/{owner.get('name', '')}"
    return [name(obj), text, obj.get("revision", 0), age(obj, now)]


def _podtemplate(obj: Object, now: float) -> list[Any]:
    template = obj.get("template") or {}
    return [
        name(obj),
        *containers(template.get("spec")),
        labels((template.get("metadata") or {}).get("labels")),
    ]


def _metric_target(metric: Object, current: Object) -> str:
    """Return one HPA metric as `cpu: 10%/80%`; the current value is `<unknown>` until one was measured."""
    kind = metric.get("type", "")
    source = metric.get(kind[:1].lower() + kind[1:]) or {}
    measured = (current.get(kind[:1].lower() + kind[1:]) or {}).get("current") or {}
    target = source.get("target") or {}
    label = source.get("name") or (source.get("metric") or {}).get("name") or ""
    if target.get("averageUtilization") is not None:
        now_text = measured.get("averageUtilization")
        text = f"{UNKNOWN if now_text is None else f'{now_text}%'}/{target['averageUtilization']}%"
    elif target.get("averageValue") is not None:
        text = f"{measured.get('averageValue', UNKNOWN)}/{target['averageValue']}"
        if kind == "Object":
            text += " (avg)"
    else:
        text = f"{measured.get('value', UNKNOWN)}/{target.get('value', UNKNOWN)}"
    return f"{label}: {text}" if kind in ("Resource", "ContainerResource") else text


def _hpa_targets(obj: Object) -> str:
    utilization = spec(obj).get("targetCPUUtilizationPercentage")  # autoscaling/v1
    if utilization is not None:
        current = status(obj).get("currentCPUUtilizationPercentage")
        return f"cpu: {UNKNOWN if current is None else f'{current}%'}/{utilization}%"
    metrics, currents = spec(obj).get("metrics") or [], status(obj).get("currentMetrics") or []
    if not metrics:
        return NONE
    texts = [
        _metric_target(metric, currents[index] if index < len(currents) else {})
        for index, metric in enumerate(metrics)
    ]
    return ", ".join(texts[:2]) + (f" + {len(texts) - 2} more..." if len(texts) > 2 else "")


def _hpa(obj: Object, now: float) -> list[Any]:
    target, least = spec(obj).get("scaleTargetRef") or {}, spec(obj).get("minReplicas")
    return [
        name(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _hpa_targets(obj),
        UNSET if least is None else str(least),
        spec(obj).get("maxReplicas", 0),
        status(obj).get("currentReplicas", 0),
        age(obj, now),
    ]


def _pdb(obj: Object, now: float) -> list[Any]:
    least, most = spec(obj).get("minAvailable"), spec(obj).get("maxUnavailable")
    return [
        name(obj),
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        status(obj).get("disruptionsAllowed", 0),
        age(obj, now),
    ]


_COUNTS = "Name, Desired#, Current#, Ready#, Age, Containers*, Images*, Selector*"
_HPA = Columns(define("Name, Reference, Targets, MinPods, MaxPods#, Replicas#, Age"), _hpa)

WORKLOADS: dict[tuple[str, str], Columns] = {
    ("", "replicationcontrollers"): Columns(define(_COUNTS), _replicationcontroller),
    ("", "podtemplates"): Columns(define("Name, Containers, Images, Pod Labels"), _podtemplate),
    ("apps", "controllerrevisions"): Columns(define("Name, Controller, Revision#, Age"), _controllerrevision),
    ("apps", "daemonsets"): Columns(
        define(
            "Name, Desired#, Current#, Ready#, Up-to-date#, Available#, Node Selector, Age, "
            "Containers*, Images*, Selector*"
        ),
        _daemonset,
    ),
    ("apps", "deployments"): Columns(
        define("Name, Ready, Up-to-date#, Available#, Age, Containers*, Images*, Selector*"), _deployment
    ),
    ("apps", "replicasets"): Columns(define(_COUNTS), _replicaset),
    ("apps", "statefulsets"): Columns(define("Name, Ready, Age, Containers*, Images*"), _statefulset),
    ("autoscaling", "horizontalpodautoscalers"): _HPA,
    ("batch", "cronjobs"): Columns(
        define(
            "Name, Schedule, Timezone, Suspend, Active#, Last Schedule, Age, Containers*, Images*, Selector*"
        ),
        _cronjob,
    ),
    ("batch", "jobs"): Columns(
        define("Name, Status, Completions, Duration, Age, Containers*, Images*, Selector*"), _job
    ),
    ("policy", "poddisruptionbudgets"): Columns(
        define("Name, Min Available, Max Unavailable, Allowed Disruptions#, Age"), _pdb
    ),
}
