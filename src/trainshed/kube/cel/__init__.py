"""CEL: expressions read, checked and evaluated as Kubernetes does. Pure."""
