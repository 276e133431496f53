"""Controllers of built-in workloads: Deployments, ReplicaSets, Jobs."""
