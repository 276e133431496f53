"""Groups of pods that are placed together: the two APIs for them, and how a pod says that it belongs to one.

Volcano         docs of `scheduling.volcano.sh/v1beta1` PodGroup; pods carry an annotation
scheduler-plugins   docs of its coscheduling plugin, `scheduling.x-k8s.io/v1alpha1` PodGroup; pods carry a label
"""

from __future__ import annotations

from trainshed.kube.meta.resources import Resource

VOLCANO_PODGROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
VOLCANO_QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False)
COSCHEDULING_PODGROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")

VOLCANO_GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
VOLCANO_TASK_ANNOTATION = "volcano.sh/task-spec"
COSCHEDULING_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"

VOLCANO_SCHEDULER = "volcano"
COSCHEDULING_SCHEDULER = "scheduler-plugins-scheduler"
"""The name under which scheduler-plugins installs its second scheduler."""
DEFAULT_QUEUE = "default"
