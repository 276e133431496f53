"""Rules that a node must meet by itself, one function per rule, each returning why not.

Texts are those of kube-scheduler's plugins, since people search for them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from decimal import Decimal

from trainshed.cluster.scheduler.requests import is_host_port, pod_needs
from trainshed.kube.meta.amounts import numbers
from trainshed.kube.meta.nodeselection import is_selected, tolerated
from trainshed.kube.meta.objects import Object, section, spec_of, status_of

NO_FREE_PORTS = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY_PODS = "Too many pods"
INSUFFICIENT = "Insufficient "
_ZERO = Decimal(0)


def unmet(pod: Object, node: Object, used: Mapping[str, Decimal]) -> list[str]:
    """Return every reason why the pod does not fit on the node; empty when it does."""
    return [*rules_unmet(pod, node), *short(pod_needs(pod), node, used)]


def rules_unmet(pod: Object, node: Object) -> list[str]:
    """Return every reason but missing room why the pod may not go to the node."""
    return [*_unschedulable(pod, node), *_taints(pod, node), *_selector(pod, node)]


def short(needs: Mapping[str, Decimal], node: Object, used: Mapping[str, Decimal]) -> list[str]:
    """Return of which resources the node has too little left."""
    offered = allocatable(node)
    ports = any(is_host_port(name) and used.get(name) for name in needs)
    return [NO_FREE_PORTS] * ports + [
        TOO_MANY_PODS if name == "pods" else INSUFFICIENT + name
        for name, amount in sorted(needs.items())
        if amount and not is_host_port(name) and amount > offered.get(name, _ZERO) - used.get(name, _ZERO)
    ]


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
    taints = spec_of(node).get("taints")
    if not taints:
        return
    tolerations = spec_of(pod).get("tolerations") or ()
    for taint in taints:
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not tolerated(taint, tolerations):
            yield f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"


def _selector(pod: Object, node: Object) -> Iterator[str]:
    if not is_selected(pod, node):
        yield "node(s) didn't match Pod's node affinity/selector"


def allocatable(node: Object) -> Mapping[str, Decimal]:
    """Return what the node offers to pods. Not to be changed: it is shared."""
    return _offered(tuple(section(node, "status", "allocatable").items()))


@functools.lru_cache(maxsize=4096)
def _offered(amounts: tuple[tuple[str, str], ...]) -> Mapping[str, Decimal]:
    return numbers(dict(amounts))
