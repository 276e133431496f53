"""What to do about one pod: a pure function of what is observed."""

from __future__ import annotations

import msgspec

from trainshed.cluster.node.pod.lifecycle import Allocate, PodPlan, next_steps
from trainshed.cluster.node.pod.observed import Observed
from trainshed.cluster.node.pod.status import changed, pod_status
from trainshed.kube.meta.objects import status_of


def decide(observed: Observed) -> PodPlan:
    """Return what to do now and the status to write first. Observe again once the actions are done."""
    pod, seen, now = observed.pod, observed.seen, observed.now
    plan = next_steps(pod, seen, now, observed.refused)
    if seen.gone or Allocate() in plan.actions:  # what to tell then follows from it
        return plan
    status = pod_status(pod, seen, now, observed.node, observed.refused)
    return msgspec.structs.replace(plan, status=status) if changed(status_of(pod), status) else plan
