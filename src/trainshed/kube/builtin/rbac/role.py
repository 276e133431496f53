"""Roles: rules about the resources of one namespace."""

from __future__ import annotations

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.rbac import role_causes, role_defaults
from trainshed.kube.meta import names
from trainshed.kube.meta.resources import ROLES

KIND = Builtin(
    info=row(ROLES, create_on_update=True),
    does="decides every request",
    name_rule=names.path_segment,
    defaults=role_defaults,
    check=role_causes,
)
