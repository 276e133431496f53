"""StorageClasses: which one is the default."""

from __future__ import annotations

from collections.abc import Iterable

from trainshed.kube.meta.objects import Object, section

IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"
"""Annotation, written by whoever sets the cluster up; read when a claim names no class."""


def default_class(classes: Iterable[Object]) -> str | None:
    """Return the name of the default among `classes`; the newest when several are marked, as upstream."""
    found = [
        (obj["metadata"]["creationTimestamp"], obj["metadata"]["name"])
        for obj in classes
        if section(obj["metadata"], "annotations").get(IS_DEFAULT) == "true"
    ]
    return max(found)[1] if found else None
