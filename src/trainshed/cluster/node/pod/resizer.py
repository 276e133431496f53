"""The effects of a resize: what was given to a pod, and what its containers have of it.

The status that was written last is the memory of it; the runtime says what its containers have.
"""

from __future__ import annotations

import logging

from trainshed.cluster.node.pod import resizing
from trainshed.cluster.node.pod.amounts import in_milli, limits_of
from trainshed.cluster.node.pod.lifecycle import should_restart
from trainshed.cluster.node.pod.nodecontext import NodeContext
from trainshed.cluster.node.pod.observed import Refusal
from trainshed.cluster.node.pod.record import PodRecord
from trainshed.cluster.node.pod.sandboxspec import container_amounts, contended_cpu
from trainshed.cluster.sandbox.api import RuntimeLost, SandboxState
from trainshed.kube.meta.objects import Object, section, uid_of
from trainshed.kube.meta.pods import find_container

log = logging.getLogger(__name__)


class Resizer:
    """Knows what one pod was given. `desired` is its object as the API has it."""

    def __init__(self, context: NodeContext, record: PodRecord, desired: Object) -> None:
        self.desired = desired
        self._context = context
        self._record = record
        self._given = resizing.given(desired)

    def take(self, desired: Object) -> Object:
        """Take the pod's newest object; return it with what it was given."""
        self.desired = desired
        return resizing.with_given(desired, self._given)

    def adopt(self, found: SandboxState) -> None:
        """Compare what containers that run have with what they were given."""
        pod = self.take(self.desired)
        for state in found.containers:
            container = find_container(pod, state.name)
            if container is None or state.pid is None or state.amounts is None:
                continue
            known = state.amounts == container_amounts(pod, container)
            self._record.container(state.name).actuated = section(container, "resources") if known else {}

    def refused(self, pod: Object) -> Refusal | None:
        """Return whether the node gives `pod`, which is that of `take`, what its spec asks for; None for no change."""
        if pod is self.desired:
            return None
        others = [each for each in self._context.pods() if uid_of(each) != uid_of(pod)]
        return resizing.refusal(self.desired, resizing.room(self._context.facts.allocatable, others))

    def allocate(self) -> Object:
        """Give the pod what its spec asks for, and return it with that. Who waits after crashes waits no more."""
        before, self._given = self._given, resizing.asked(self.desired)
        policy = self.desired["spec"].get("restartPolicy", "Always")
        for name, resources in self._given.items():
            record = self._record.container(name)
            if resizing.amounts(before.get(name, {})) == resizing.amounts(resources):
                continue
            newest = record.newest
            if newest is not None and newest.running:
                record.actuated = before.get(name, {}) if record.actuated is None else record.actuated
            elif newest is not None and should_restart(policy, newest):
                record.outdate()
        self._record.clear_resize_problem()
        return self.desired

    async def resize(self, pod: Object, name: str) -> None:
        """Let a running container have what it was given. Raises SandboxNotFound."""
        container = find_container(pod, name)
        if container is None:
            return
        context, uid = self._context, uid_of(pod)
        context.shares.take(uid, name, contended_cpu(pod, container))
        cpus = context.cores.take(uid, name, in_milli(limits_of(container).get("cpu")))
        try:
            await context.runtime.resize_container(uid, name, container_amounts(pod, container), cpus)
        except (RuntimeLost, OSError) as error:
            log.warning("container not resized", extra={"pod": uid, "container": name, "error": str(error)})
            self._record.fail_resize(f"container {name}: {error}", context.now())
        else:
            self._record.container(name).actuated = section(container, "resources")
            self._record.clear_resize_problem()
