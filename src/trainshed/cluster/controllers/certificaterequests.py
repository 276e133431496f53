"""Signs approved CertificateSigningRequests with the cluster's authority, and cleans up old ones."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.informers import SharedInformers
from trainshed.cluster.controllers import signers
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, objects, spec_of, status_of
from trainshed.kube.meta.resources import CERTIFICATESIGNINGREQUESTS
from trainshed.kube.meta.times import format_time

if TYPE_CHECKING:
    from trainshed.certificates import Pair


class CertificateController(Controller[str]):
    """The signers `kubernetes.io/kube-apiserver-client`, `-client-kubelet` and `kubelet-serving`."""

    def __init__(
        self,
        client: Client,
        informers: SharedInformers,
        authority: Callable[[], Pair],
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Args: authority: returns what signs, with its key, which is not kept."""
        super().__init__("certificatesigningrequests", informers)
        self._client = client
        self._authority = authority
        self._now = now
        requests = informers.of(CERTIFICATESIGNINGREQUESTS)
        self._requests = self.watch(requests, lambda obj: [obj["metadata"]["name"]])

    async def reconcile(self, name: str) -> float | None:
        request = self._requests.get("", name)
        if request is None or request["metadata"].get("deletionTimestamp"):
            return None
        now = self._now()
        ends = signers.ends_at(request, _certificate_ends(request))
        try:
            if ends is not None and ends <= now:
                uid = request["metadata"]["uid"]
                await self._client.delete(CERTIFICATESIGNINGREQUESTS, name, uid=uid)
                return None
            if signers.is_due(request):
                await self._decide(request, now)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            return None  # looked at again on the event that this came from
        return None if ends is None else ends - now

    async def _decide(self, request: Object, now: float) -> None:
        from trainshed.cluster import signing  # X.509: few clusters are asked for certificates

        status, stamp = status_of(request), format_time(now)
        try:
            pem = base64.b64decode(spec_of(request)["request"])
            decision = signers.answer_to(request, signing.read(pem), now)
        except (ValueError, binascii.Error) as error:
            decision = signers.Refuse(str(error))
        if isinstance(decision, signers.Refuse):
            failed = {
                "type": "Failed",
                "status": "True",
                "reason": "SignerValidationFailure",
                "message": decision.message,
                "lastUpdateTime": stamp,
            }
            status = {**status, "conditions": [*objects(status, "conditions"), failed]}
        else:
            begins, ends = (datetime.fromtimestamp(at, UTC) for at in (decision.begins, decision.ends))
            made = signing.sign(self._authority(), pem, decision.usages, begins, ends)
            status = {**status, "certificate": base64.b64encode(made.encode()).decode()}
        await self._client.update(
            CERTIFICATESIGNINGREQUESTS, {**request, "status": status}, subresource="status"
        )


def _certificate_ends(request: Object) -> float | None:
    encoded = status_of(request).get("certificate")
    if not encoded:
        return None
    from trainshed import certificates

    try:
        return certificates.ends(base64.b64decode(encoded).decode()).timestamp()
    except (ValueError, binascii.Error):
        return None
