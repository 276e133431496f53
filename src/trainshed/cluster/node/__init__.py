"""The node: pods as Linux sandboxes, each owned by a shim that outlives the control plane.

    agent      registers the node, watches its pods, one worker per pod
    worker     observe ▸ lifecycle.next_actions ▸ execute ▸ status.pod_status ▸ write
    lifecycle, restarts, status, environment, unsupported, dns_records      pure
    volumes/, images, probes, gpu, logs, backend                            effects, each behind one idea
    runtime/   the sandboxes themselves

Must not hold decisions in the parts that have effects: what happens to a pod is decided in `lifecycle`.
"""
