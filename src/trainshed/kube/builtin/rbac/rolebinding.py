"""RoleBindings: a Role or a ClusterRole, in one namespace."""

from __future__ import annotations

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.rbac import BINDINGS, binding_causes, binding_defaults
from trainshed.kube.meta import names
from trainshed.kube.meta.resources import ROLEBINDINGS

KIND = Builtin(
    info=row(ROLEBINDINGS, create_on_update=True),
    does="decides every request",
    name_rule=names.path_segment,
    defaults=binding_defaults,
    check=binding_causes,
    columns=BINDINGS,
)
