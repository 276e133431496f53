"""ClusterRoleBindings: a ClusterRole, everywhere."""

from __future__ import annotations

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.rbac import BINDINGS, binding_causes, binding_defaults
from trainshed.kube.meta import names
from trainshed.kube.meta.resources import CLUSTERROLEBINDINGS

KIND = Builtin(
    info=row(CLUSTERROLEBINDINGS, create_on_update=True),
    does="decides every request",
    name_rule=names.path_segment,
    defaults=binding_defaults,
    check=binding_causes,
    columns=BINDINGS,
)
