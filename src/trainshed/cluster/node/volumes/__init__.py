"""Volumes: what the host directory behind each volume of a pod is, and where containers see it.

volume     what every type declares: objects it needs, what is not honoured, its files or its directory
registry   the types, one line each; one file per type beside it
manager    the volumes of one pod, put together; `atomic` writes files, `tokens` obtains them
mounts     volumeMounts as bind mounts
"""
