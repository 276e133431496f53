"""Decisions for the kinds of `kubeflow.org/v1`, whose jobs are made of replica types."""
