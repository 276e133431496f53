"""The API server: Kubernetes API requests in, objects of the store out.

One ASGI application. A request passes, in this order: `app` (errors, headers) → `dispatch` (who asks, by
`access`; what, of which kind; and may they) → a verb of `verbs/` or `subresources/`. Writes pass through `pipeline`
(decode, default, admit, validate) and `writing` (optimistic concurrency against the store).

Knows nothing of pods as processes: logs, exec and the like are asked of the `NodeBackend` of the pod's node.
"""

from trainshed._packages import leave_init

# Its command line would be a twentieth of a start's processor time, and 1.6 MiB.
leave_init("uvicorn", {"Config": "config"})
