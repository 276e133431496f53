"""Gangs: the pods of a job are placed together or not at all, by a gang scheduler that reads its PodGroup.

`gang` is what both APIs have in common, `volcano` and `coscheduling` are one API each, `warnings` is what a client is
told of a policy that has no effect. No kind knows of any of it.
"""
