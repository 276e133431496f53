"""Sandboxes: pods as Linux namespaces, made without root.

    api        what the node agent imports: `Runtime` and its data
    client     `Runtime`: talks to the daemons and shims over unix sockets
    sandboxd   the zygote: holds the user namespace and the cluster network, forks one shim per pod
    shim       one per pod: owns its processes, logs and exit codes; outlives everything
    doctor     why sandboxes cannot be made here, and what to change

Everything that `sandboxd` and `shim` import uses the standard library only: they run with `python -I -S`
and cost about 11 MB, shared between all pods.
"""
