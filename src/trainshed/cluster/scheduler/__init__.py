"""The scheduler: which node a pod goes to, and why a Pending pod waits.

`requests`, `predicates` and `placement` are pure; `scheduler` watches pods and binds them.
"""
