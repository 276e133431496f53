"""The node: pods as Linux sandboxes, each owned by a shim that outlives the control plane.

    agent       registers the node, watches its pods, one worker per pod
    pod/        one pod's life: worker = observe ▸ lifecycle.next_actions ▸ execute ▸ status.pod_status ▸ write
    volumes/    what the host directory behind each volume is
    devices/    GPUs

Must not hold decisions in the parts that have effects: what happens to a pod is decided in `pod.lifecycle`.
"""
