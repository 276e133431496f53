"""The training operator as a process: `python -m trainshed.operator`.

Exit status: 0 after SIGTERM or SIGINT, 1 when it cannot start or lost its leadership, 2 for wrong flags.
While the API is away it only waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import uuid
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from trainshed import __version__, _collector
from trainshed.client.client import Client
from trainshed.client.config import ConfigError, connect, load
from trainshed.client.leader import LeaderElector, LeadershipLost
from trainshed.operator import logs, metrics, probes
from trainshed.operator.counting import CountedTransport
from trainshed.operator.flags import Flags, parse
from trainshed.operator.manager import Operator
from trainshed.operator.requirements import Missing, check_requirements
from trainshed.operator.throttle import ThrottledTransport

if TYPE_CHECKING:
    from trainshed.operator.webhook import Webhook

log = logging.getLogger("trainshed.operator")

USER_AGENT = f"training-operator/{__version__}"
STOP_SECONDS = 8.0
"""Within the Deployment's grace period of 10 seconds."""


def main() -> None:
    """Entry point of the process."""
    flags = parse(sys.argv[1:], os.environ)
    logs.configure(flags.log_level, flags.log_format)
    try:
        asyncio.run(run(flags))
    except (ConfigError, LeadershipLost, Missing, OSError) as error:
        log.error("operator stopped", extra={"error": str(error)})
        sys.exit(1)


async def run(flags: Flags) -> None:
    """Serve until SIGTERM or SIGINT; ConfigError or OSError when it cannot start."""
    served = metrics.Metrics()
    config = load(flags.kubeconfig)
    connected = connect(config, user_agent=USER_AGENT)
    counted = CountedTransport(
        connected.transport, partial(served.count_request, urlsplit(config.server).netloc)
    )
    base = Client(counted, user_agent=USER_AGENT, namespace=connected.namespace)
    throttled = ThrottledTransport(counted, qps=flags.kube_api_qps, burst=flags.kube_api_burst)
    client = Client(throttled, user_agent=USER_AGENT, namespace=connected.namespace)
    operator = Operator(
        client,
        flags.jobs,
        metrics=served,
        kinds=flags.kinds,
        namespace=flags.namespace,
        threads=flags.controller_threads,
    )
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(client.close)
        stack.push_async_callback(operator.close)
        webhook: Webhook | None = None
        if flags.enable_webhook:
            from trainshed.operator.webhook import Webhook

            webhook = await stack.enter_async_context(Webhook(client, flags))
        await _serve_endpoints(stack, flags, operator, webhook)
        log.info("operator started", extra={"version": __version__, "namespace": flags.namespace or "(all)"})
        _collector.settle()
        await _until_signal(_work(base, flags, operator), operator)
    log.info("operator stopped")


async def _serve_endpoints(
    stack: contextlib.AsyncExitStack, flags: Flags, operator: Operator, webhook: Webhook | None
) -> None:
    def ready() -> probes.Answer:
        if webhook is not None and not webhook.ready:
            return probes.plain(500, "certificates are not ready")
        # A replica that waits for the lease has no caches, and is ready to take over.
        if not operator.synced and not flags.leader_elect:
            return probes.plain(500, "caches are not synced")
        return probes.plain(200, "ok")

    def alive() -> probes.Answer:
        return probes.plain(200, "ok")

    def scrape() -> probes.Answer:
        return 200, metrics.CONTENT_TYPE, operator.metrics.text()

    health = {"/healthz": alive, "/healthz/healthz": alive, "/readyz": ready, "/readyz/readyz": ready}
    for text, routes in (
        (flags.metrics_bind_address, {"/metrics": scrape}),
        (flags.health_probe_bind_address, health),
    ):
        address = probes.parse_address(text)
        if address is not None:
            server = await probes.serve(address, routes)
            stack.callback(server.close)


async def _work(base: Client, flags: Flags, operator: Operator) -> None:
    """Run the controllers, while holding the lease if asked to. Raises Missing before anything is watched."""
    await check_requirements(base, flags.jobs)
    if not flags.leader_elect:
        await operator.run()
        return
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    # Past the throttle: a renewal must not wait behind a burst of creates.
    elector = LeaderElector(base, flags.operator_namespace, flags.leader_election_id, identity)
    operator.metrics.watch_lease(flags.leader_election_id, lambda: elector.leading)
    await elector.run(operator.run)


async def _until_signal(work: Coroutine[Any, Any, None], operator: Operator) -> None:
    """Run `work`; at a signal let what is in progress end, for at most STOP_SECONDS."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    signalled = asyncio.ensure_future(stopping.wait())
    await asyncio.wait({task, signalled}, return_when=asyncio.FIRST_COMPLETED)
    signalled.cancel()
    if not task.done():
        log.info("stopping")
        operator.stop()
        if not operator.synced:
            task.cancel()
        await asyncio.wait({task}, timeout=STOP_SECONDS)
        task.cancel()
    await asyncio.gather(task, return_exceptions=task.cancelled())
