"""Bindings: a request to put a pod on a node. Nothing is kept."""

from __future__ import annotations

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.meta.resources import core

KIND = Builtin(
    info=row(core("bindings", "Binding"), verbs=("create",), stored=False),
    does="binds a pod to a node",
    viewed=("",),
)
