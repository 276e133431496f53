"""Volumes: what the host directory behind each volume of a pod is, and where containers see it.

One file per kind of source. `payload` kinds (configMap, secret, downwardAPI, projected) are pure functions
from objects to files, written by `atomic`; the others name a directory of the host. `manager` puts them
together for a pod and `mounts` turns volumeMounts into bind mounts.
"""
