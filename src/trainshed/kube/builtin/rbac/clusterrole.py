"""ClusterRoles, whose rules may be collected from others."""

from __future__ import annotations

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.rbac import role_causes, role_defaults
from trainshed.kube.meta import names
from trainshed.kube.meta.resources import CLUSTERROLES

KIND = Builtin(
    info=row(CLUSTERROLES, create_on_update=True),
    does="decides every request; aggregated roles are computed",
    name_rule=names.path_segment,
    defaults=role_defaults,
    check=role_causes,
)
