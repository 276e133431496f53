"""The types of `kubeflow.org/v1`."""
