"""The kinds we own, each declared once: fields, defaults, validation, CRD.

Knows Kubernetes' vocabulary (`kube`) as a typed client's API package knows `apimachinery`, and nothing else of ours.
Must not hold anything that talks to a server.
"""
