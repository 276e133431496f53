"""What every face does: find and apply manifests, follow a job, read its logs, progress, state and summary.

The command line, and whatever else shows a job, are views over this package.
"""
