"""Sandboxes: pods as Linux namespaces, made without root. A program of its own that knows nothing of Kubernetes.

    api      what the node imports: `Runtime` and its data
    client   `Runtime`: talks to the daemons and shims over unix sockets
    daemon   sandboxd, the zygote that holds the namespaces; one shim per pod, which outlives everything; netd
    net      the cluster network: addresses, names, the way out
    linux    system calls, mounts, namespaces, netlink

Everything that a daemon imports uses the standard library only: they run with `python -I -S` and cost about
11 MB, shared between all pods.
"""
