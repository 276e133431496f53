"""ClusterRoles with an `aggregationRule`: their rules are those of the roles that it selects, written out."""

from __future__ import annotations

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.informers import SharedInformers
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import name_of
from trainshed.kube.meta.resources import CLUSTERROLES
from trainshed.kube.served.rbac import aggregated_rules

_ANSWERED = (404, 409)
"""On a write: the role is gone or has changed, which is an event of its own."""


class AggregationController(Controller[str]):
    """Writes `rules`, for who reads them: what counts is computed by the authorizer at once."""

    def __init__(self, client: Client, informers: SharedInformers) -> None:
        super().__init__("clusterrole-aggregation", informers)
        self._client = client
        self._roles = informers.of(CLUSTERROLES)
        self.watch(self._roles, lambda changed: self._aggregating())

    def _aggregating(self) -> list[str]:
        return [name_of(role) for role in self._roles.items() if role.get("aggregationRule")]

    async def reconcile(self, name: str) -> None:
        role = self._roles.get("", name)
        if role is None or not role.get("aggregationRule"):
            return
        rules = aggregated_rules(role, sorted(self._roles.items(), key=name_of))
        if rules == (role.get("rules") or []):
            return
        try:
            await self._client.update(CLUSTERROLES, {**role, "rules": rules})
        except ApiError as error:
            if error.code not in _ANSWERED:
                raise
