"""Run Kubeflow training jobs on a laptop or on any Kubernetes, unchanged."""

__version__ = "0.1.0"
