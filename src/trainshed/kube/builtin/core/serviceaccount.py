"""ServiceAccounts; `token` issues their tokens."""

from __future__ import annotations

from typing import Any

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.meta.objects import Object, name_of
from trainshed.kube.meta.resourceinfo import SubresourceInfo
from trainshed.kube.meta.resources import SERVICEACCOUNTS

_TOKEN = SubresourceInfo(("create",), "TokenRequest", "authentication.k8s.io", "v1")


def _row(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), len(obj.get("secrets") or ()), age(obj, now)]


KIND = Builtin(
    info=row(SERVICEACCOUNTS, "sa", subresources={"token": _TOKEN}),
    does="tokens, also mounted into pods, are signed, expire and are bound to their pod",
    columns=Columns(define("Name, Secrets, Age"), _row),
    viewed=("",),
    edited=("",),
    returns_deleted=True,
)
