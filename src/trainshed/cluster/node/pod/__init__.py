"""The life of one pod on a node. `worker` goes round:

    record      what is known, changed as events arrive (sandbox, containers, probes); the runtime's word wins
    observed    the types of a frozen copy of it: `seen = record.seen()`, a `SeenPod`
    lifecycle   `next_actions(pod, seen, now)`: what to do next; `starter` and `containers` do it
    status      `pod_status(pod, seen, now)`: what the API is told of it; `statuswriter` writes that when it changed

What a container is given comes from `environment`, `sandboxspec` and, beside this package, `volumes`.
"""
