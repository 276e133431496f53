"""Volumes and claims: static binding, the default class's directories, reclaim.

`matching` is pure; `controller` acts on it; `directories` is the only place that touches the disk.
"""
