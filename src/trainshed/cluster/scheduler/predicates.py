"""Rules that a node must meet, one function per rule, each returning why not.

Texts are those of kube-scheduler's plugins, since people search for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal

from trainshed.cluster.scheduler.requests import pod_requests
from trainshed.kube.meta.amounts import Amounts, numbers
from trainshed.kube.meta.nodeselection import is_selected, tolerated
from trainshed.kube.meta.objects import Object, section, spec_of, status_of


def unmet(pod: Object, node: Object, used: Mapping[str, Decimal]) -> list[str]:
    """Return every reason why the pod does not fit on the node; empty when it does."""
    return [*rules_unmet(pod, node), *_resources(pod, node, used)]


def rules_unmet(pod: Object, node: Object) -> list[str]:
    """Return every reason but missing room why the pod may not go to the node."""
    return [*_unschedulable(pod, node), *_taints(pod, node), *_selector(pod, node)]


def takes_pods(node: Object) -> bool:
    """Return whether the node is ready and takes ordinary pods."""
    return not [*_unschedulable({}, node)]


def _unschedulable(pod: Object, node: Object) -> Iterator[str]:
    if spec_of(node).get("unschedulable"):
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        if not tolerated(taint, spec_of(pod).get("tolerations") or ()):
            yield "node(s) were unschedulable"
    ready = next((c for c in status_of(node).get("conditions") or () if c["type"] == "Ready"), None)
    if ready is None or ready.get("status") != "True":
        yield "node(s) were not ready"


def _taints(pod: Object, node: Object) -> Iterator[str]:
    tolerations = spec_of(pod).get("tolerations") or ()
    for taint in spec_of(node).get("taints") or ():
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not tolerated(taint, tolerations):
            yield f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"


def _selector(pod: Object, node: Object) -> Iterator[str]:
    if not is_selected(pod, node):
        yield "node(s) didn't match Pod's node affinity/selector"


def _resources(pod: Object, node: Object, used: Mapping[str, Decimal]) -> Iterator[str]:
    offered = allocatable(node)
    for name, amount in sorted(pod_requests(pod).items()):
        if amount and amount > offered.get(name, Decimal(0)) - used.get(name, Decimal(0)):
            yield "Too many pods" if name == "pods" else f"Insufficient {name}"


def allocatable(node: Object) -> Amounts:
    """Return what the node offers to pods."""
    return numbers(section(node, "status", "allocatable"))
