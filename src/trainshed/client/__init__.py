"""A client of any Kubernetes API: requests, list-watch, informers, work queue, events.

Must not know which server it talks to: the embedded cluster is one more Kubernetes API.
"""
