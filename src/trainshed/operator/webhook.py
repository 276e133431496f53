"""The validating webhook: the same checks as the embedded API server makes itself, over HTTPS.

A cluster whose API server does not know our validation asks here: AdmissionReview v1 in, verdict out.
Imported only with `--enable-webhook`, for it needs a TLS server and the certificate library.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from types import TracebackType
from typing import Any, Self

import msgspec
from aiohttp import web

from trainshed.api.kind import Kind
from trainshed.api.registry import KINDS
from trainshed.api.verdict import text
from trainshed.client.client import Client
from trainshed.client.transport import TransportError
from trainshed.jobs import registry
from trainshed.jobs.engine.model import DEFAULTS, OperatorOptions
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object, section
from trainshed.operator.certificates import CertificateKeeper
from trainshed.operator.flags import Flags

log = logging.getLogger(__name__)

MAX_REQUEST_BYTES = 8 << 20
"""An AdmissionReview of an update holds the object twice; objects are limited to 3 MiB."""
RETRY_SECONDS = 2.0


def review(kind: Kind, body: bytes, options: OperatorOptions = DEFAULTS) -> Object:
    """Return the AdmissionReview that answers the one in `body`; ValueError when it is none."""
    try:
        request = msgspec.json.decode(body)["request"]
        uid = request["uid"]
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise ValueError(f"not an AdmissionReview: {error}") from error
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if request.get("operation") in ("CREATE", "UPDATE"):
        verdict = registry.review(kind, section(request, "object"), request.get("oldObject"), options)
        if verdict.warnings:
            response["warnings"] = list(verdict.warnings)
        if verdict.errors:
            message = text(verdict.errors)
            response["allowed"] = False
            response["status"] = {"code": 403, "reason": "Forbidden", "message": message}
    elif request.get("operation") == "DELETE" and kind.deletion_warnings:
        response["warnings"] = list(kind.deletion_warnings)
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def application(flags: Flags) -> web.Application:
    """Return the server of the kinds that the operator was told to reconcile; nobody answers for another."""
    app = web.Application(client_max_size=MAX_REQUEST_BYTES)
    for name in flags.kinds:
        app.router.add_post(KINDS[name].webhook_path, _handler(KINDS[name], flags.jobs))
    return app


class Webhook:
    """Serves the webhooks of all kinds while entered; keeps its certificate and the caBundle in place."""

    def __init__(self, client: Client, flags: Flags) -> None:
        self._flags = flags
        self._keeper = CertificateKeeper(
            client,
            namespace=flags.operator_namespace,
            secret=flags.webhook_secret_name,
            service=flags.webhook_service_name,
        )
        self._runner: web.AppRunner | None = None
        self._task: asyncio.Task[None] | None = None
        self.ready = False

    async def __aenter__(self) -> Self:
        # In the background: the API may be away, and the kubelet wants its probes answered meanwhile.
        self._task = asyncio.create_task(self._start(), name="webhook")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._runner is not None:
            await self._runner.cleanup()

    async def _start(self) -> None:
        while True:
            try:
                context = await self._keeper.prepare()
                break
            except (ApiError, TransportError) as error:
                log.warning("webhook certificate not ready", extra={"error": str(error)})
                await asyncio.sleep(RETRY_SECONDS)
        self._runner = web.AppRunner(application(self._flags), access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, port=self._flags.webhook_server_port, ssl_context=context)
        await site.start()
        self.ready = True
        log.info("webhook serving", extra={"port": self._flags.webhook_server_port})
        while True:
            await asyncio.sleep(self._keeper.renewal_seconds())
            try:
                await self._keeper.renew(context)
            except (ApiError, TransportError) as error:
                log.warning("webhook certificate not renewed", extra={"error": str(error)})


def _handler(kind: Kind, options: OperatorOptions) -> Any:
    async def handle(request: web.Request) -> web.Response:
        try:
            answer = review(kind, await request.read(), options)
        except ValueError as error:
            return web.Response(status=400, text=str(error))
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    return handle
