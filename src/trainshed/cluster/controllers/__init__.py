"""Controllers of the embedded cluster, each a level-triggered loop over the Kubernetes API."""
