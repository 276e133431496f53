"""Secrets of type `kubernetes.io/service-account-token`: each gets the token of its account, and goes with it."""

from __future__ import annotations

import base64

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.informers import SharedInformers
from trainshed.cluster.apiserver.tokens import TokenIssuer
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.resources import SECRETS, SERVICEACCOUNTS

TYPE = "kubernetes.io/service-account-token"
NAME, UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
"""Annotations of such a Secret: whose token it holds."""
_ANSWERED = (404, 409)
"""On a write: the Secret is gone or has changed, which is an event of its own."""


class TokenController(Controller[tuple[str, str]]):
    """Fills in `token`, `ca.crt` and `namespace`; deletes Secrets whose account is gone."""

    def __init__(
        self, client: Client, informers: SharedInformers, issuer: TokenIssuer, ca_certificate: str
    ) -> None:
        """Args: ca_certificate: PEM, what holders of tokens trust the API server by."""
        super().__init__("serviceaccount-tokens", informers)
        self._client = client
        self._issuer = issuer
        self._ca = ca_certificate
        secrets = informers.of(SECRETS, field_selector=f"type={TYPE}")
        self._secrets = self.watch(secrets, lambda obj: [_key(obj)])
        self.watch(informers.of(SERVICEACCOUNTS), self._of_account)

    def _of_account(self, account: Object) -> list[tuple[str, str]]:
        metadata = account["metadata"]
        return [
            _key(secret)
            for secret in self._secrets.items()
            if secret["metadata"]["namespace"] == metadata["namespace"]
            and section(secret, "metadata", "annotations").get(NAME) == metadata["name"]
        ]

    async def reconcile(self, key: tuple[str, str]) -> None:
        namespace, name = key
        secret = self._secrets.get(namespace, name)
        if secret is None or secret["metadata"].get("deletionTimestamp"):
            return
        annotations = section(secret, "metadata", "annotations")
        try:
            account = await self._account(namespace, annotations.get(NAME, ""))
            if account is None or annotations.get(UID) not in (None, "", account["metadata"]["uid"]):
                await self._client.delete(SECRETS, name, namespace, uid=secret["metadata"]["uid"])
                return
            wanted = self._filled(secret, account)
            if wanted != secret:
                await self._client.update(SECRETS, wanted)
        except ApiError as error:
            if error.code not in _ANSWERED:
                raise

    async def _account(self, namespace: str, name: str) -> Object | None:
        # Asked of the server: the Secret may be known here before the account that was made with it.
        try:
            return await self._client.get(SERVICEACCOUNTS, name, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    def _filled(self, secret: Object, account: Object) -> Object:
        metadata, data = secret["metadata"], section(secret, "data")
        annotations = {**metadata["annotations"], UID: account["metadata"]["uid"]}
        token = data.get("token") or _encoded(self._issuer.issue_for(account, secret))
        filled = {"ca.crt": _encoded(self._ca), "namespace": _encoded(metadata["namespace"]), "token": token}
        return {**secret, "metadata": {**metadata, "annotations": annotations}, "data": {**data, **filled}}


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
