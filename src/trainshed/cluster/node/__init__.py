"""The node: pods as Linux sandboxes, each owned by a shim that outlives the control plane.

    machine     what there is once: runtime, informers, DNS zone; tells its nodes what happens
    node        one Node object and its Lease, a worker per pod; `nodes` finds a pod's node for the API server
    pod/        one pod's life: worker = observe ▸ decide ▸ write the status ▸ execute
    volumes/    what the host directory behind each volume is; a registry of types
    devices/    GPUs

Must not hold decisions in the parts that have effects: what happens to a pod is decided in `pod.decide`.
"""
