"""ServiceAccounts; `token` issues their tokens."""

from __future__ import annotations

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import NAME_AGE
from trainshed.kube.meta.resourceinfo import SubresourceInfo
from trainshed.kube.meta.resources import SERVICEACCOUNTS

_TOKEN = SubresourceInfo(("create",), "TokenRequest", "authentication.k8s.io", "v1")


KIND = Builtin(
    info=row(SERVICEACCOUNTS, "sa", subresources={"token": _TOKEN}),
    does="tokens, also mounted into pods, are signed, expire and are bound to their pod",
    lacks="its `imagePullSecrets` do not count",
    columns=NAME_AGE,
    viewed=("",),
    edited=("",),
    returns_deleted=True,
)
