"""The life of one pod on a node: what is seen, what comes next, what its status says."""
