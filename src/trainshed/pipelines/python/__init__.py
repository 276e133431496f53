"""Pipelines of functions: `@step` and `@pipeline` make the same ir as a notebook does."""
