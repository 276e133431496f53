"""The control plane: every part of the embedded cluster that may die, in one process.

    store ── API server ── (in-process client) ── scheduler, controllers, storage, node agents
                 │
      127.0.0.1 (users) and 10.96.0.1:443 inside the cluster's network (pods)

Pods, their shims and the daemons are other processes: `kill -9` of this one disturbs none of them, and the next
one finds everything again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from trainshed import __version__, _collector
from trainshed.client.asgi import AsgiTransport
from trainshed.client.client import Client
from trainshed.client.controllers.informers import SharedInformers
from trainshed.cluster.apiserver.app import ApiServer
from trainshed.cluster.apiserver.core import AdmissionCheck
from trainshed.cluster.apiserver.serve import serve
from trainshed.cluster.control import installing, kubeconfig
from trainshed.cluster.control.apart import apart
from trainshed.cluster.control.errors import CannotStart
from trainshed.cluster.control.installing import Install, New, Stored
from trainshed.cluster.control.launcher import Info, Report, start_ticks
from trainshed.cluster.control.listening import LOOPBACK, listen
from trainshed.cluster.control.memory import MemoryKeeper, keep_one_heap
from trainshed.cluster.controllers.aggregatedroles import AggregationController
from trainshed.cluster.controllers.autoscaling.autoscalers import AutoscalerController
from trainshed.cluster.controllers.certificaterequests import CertificateController
from trainshed.cluster.controllers.flowschemas import FlowSchemaController
from trainshed.cluster.controllers.garbage import GarbageCollector
from trainshed.cluster.controllers.namespaces import NamespaceController
from trainshed.cluster.controllers.nodestates import NodeStateController
from trainshed.cluster.controllers.quotas import QuotaController
from trainshed.cluster.controllers.registry import controllers
from trainshed.cluster.controllers.tekton.part import Tekton
from trainshed.cluster.controllers.tokensecrets import TokenController
from trainshed.cluster.images.directories import ImageRegistry
from trainshed.cluster.images.lookup import Lookup
from trainshed.cluster.images.store.store import ImageStore
from trainshed.cluster.node.devices.gpu import detect
from trainshed.cluster.node.fake.lifecycle import RUNS, Lifecycle
from trainshed.cluster.node.machine import Machine, NodeOptions
from trainshed.cluster.node.membership import settle_fakes, settle_nodes
from trainshed.cluster.node.nodes import NodeGroup
from trainshed.cluster.node.paths import NodePaths
from trainshed.cluster.node.pod.environment import Egress
from trainshed.cluster.node.pod.images import Mode
from trainshed.cluster.node.pod.nodecontext import MachineOptions, local_pids_limit
from trainshed.cluster.node.pod.sandboxspec import ClusterNetwork, host_searches
from trainshed.cluster.node.pod.unsupported import Capabilities, local_capabilities
from trainshed.cluster.paths import StateError, StatePaths, write_private
from trainshed.cluster.pki import Pki, ensure_pki
from trainshed.cluster.sandbox import logfile
from trainshed.cluster.sandbox.addresses import API_ADDRESS, API_PORT, GATEWAY, PROXY_URL
from trainshed.cluster.sandbox.api import Isolation, Runtime, RuntimePaths, RuntimeUnavailable
from trainshed.cluster.sandbox.files import lock
from trainshed.cluster.scheduler.scheduler import Scheduler
from trainshed.cluster.storage.controller import StorageController
from trainshed.cluster.storage.ephemeral import EphemeralController
from trainshed.cluster.store import Store, StoreError
from trainshed.cluster.store.transform import PLAIN, Transformer
from trainshed.kube.meta.resources import PODS
from trainshed.tekton.versions import CONVERSIONS

if TYPE_CHECKING:
    from trainshed.cluster.apiserver.audit import AuditLog
    from trainshed.cluster.apiserver.oidc.configuration import Configuration
    from trainshed.kube.policy.audit import Policy

log = logging.getLogger("trainshed.cluster")

IDENTITY = "system:trainshed"
USER_AGENT = "trainshed-controlplane"


class _Part(Protocol):
    """Something that runs for as long as the control plane does."""

    async def run(self) -> None: ...


class _Log:
    """Looks after the log, which both outputs of the process lead to."""

    async def run(self) -> None:
        while True:
            try:
                await asyncio.to_thread(logfile.rotate, (1, 2))
            except OSError as error:
                log.warning("the log goes on in the same file", extra={"error": str(error)})
            await asyncio.sleep(logfile.CHECK_SECONDS)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to run it. `port` 0: the port of last time, else a free one. `new` and `install`: see `installing`.
    `scheduler_names`: further ones that the scheduler answers to. `isolation`: what keeps pods apart.
    `images`: what containers run in whose image is not in the store. `pids`: how many processes a
    pod may have, 0 for any number, None for the machine's share. `audit`: a policy, and the log that it writes.
    `fake_nodes`: None for as many as last time; `fake_lifecycles`: what becomes of their pods. `authentication`: who
    else vouches for users. `encryption`: what is done to objects on their way to the disk.
    `opened` is called once they could be read."""

    nodes: int = 0
    port: int = 0
    new: New | None = None
    install: Install = lambda is_new: iter(())
    admission: Mapping[str, AdmissionCheck] = {}
    scheduler_names: Sequence[str] = ()
    images: Mode = "machine"
    isolation: Isolation = "namespaces"
    pids: int | None = None
    audit: tuple[Policy, Path] | None = None
    fake_nodes: int | None = None
    fake_lifecycles: Sequence[Lifecycle] = (RUNS,)
    authentication: Configuration | None = None
    encryption: Transformer = PLAIN
    opened: Callable[[], None] = lambda: None


async def run(paths: StatePaths, options: Options, report: Callable[[Report], None]) -> None:
    """Serve until SIGTERM or SIGINT. `report` is told each step, and `ready` once requests are answered.

    Raises:
        CannotStart: with a sentence for the user and a hint.
    """
    raise_file_limit()
    outlive_pods()
    sys.setswitchinterval(SWITCH_SECONDS)
    keep_one_heap()
    async with contextlib.AsyncExitStack() as stack:
        _lock(paths, stack)
        try:
            report(Report(step="certificates"))
            # X.509 takes 3 MiB, and is used again for few: who shows a certificate, or asks for one.
            with apart(lambda: ensure_pki(paths.pki)) as made:
                runtime = Runtime(RuntimePaths.under(paths.root), options.isolation)
                stack.push_async_callback(runtime.close)
                # That is waiting for other processes: what follows is done meanwhile.
                starting = asyncio.create_task(runtime.start())
                stack.push_async_callback(_ended, starting)
                report(Report(step="store"))
                store = await Store.open(paths.store, transformer=options.encryption)
                stack.push_async_callback(store.close)
                options.opened()
                # Who audits sees the requests.
                rest = await installing.fill(store, options.new if options.audit is None else None)
                await asyncio.to_thread(made)
            pki = Pki(paths.pki)
            report(Report(step="sandboxes"))
            nodes = NodeGroup()
            api = ApiServer.secured(
                store, pki, nodes=nodes, admission=options.admission, conversions=CONVERSIONS
            )
            if options.authentication is not None:
                from trainshed.cluster.apiserver.oidc.providers import Providers

                api.core.authenticator.providers = Providers(options.authentication, time.monotonic)
            if options.audit is not None:
                api.audit_log = _audit_log(*options.audit)
                stack.callback(api.audit_log.close)
            client = Client(AsgiTransport(api, IDENTITY, ["system:masters"]), user_agent=USER_AGENT)
            if rest is None:
                await installing.first_objects(client, pki)
            await starting
        except RuntimeUnavailable as error:
            raise CannotStart(error.message, _remedy(error, options.isolation)) from error
        except (StateError, StoreError) as error:
            raise CannotStart(error.message, error.hint) from error
        except OSError as error:
            detail = error.strerror or repr(error)
            raise CannotStart(
                f"cannot use the state directory {paths.root}: {detail}",
                "make room there, or set TRAINSHED_HOME to another directory",
            ) from error
        await _serve(
            paths, options, report, pki=pki, api=api, client=client, runtime=runtime, nodes=nodes, rest=rest
        )


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _remedy(error: RuntimeUnavailable, isolation: Isolation) -> str:
    """Return what to change, and what does without where nothing can be changed."""
    other = isolation == "plain" or "trainshed down" in error.remedy
    plain = "" if other else "; or, without isolation: trainshed up --isolation plain"
    return f"{error.remedy} (trainshed doctor explains){plain}"


def _audit_log(policy: Policy, path: Path) -> AuditLog:
    from trainshed.cluster.apiserver.audit import AuditLog

    try:
        return AuditLog(policy, path, time.time)
    except OSError as error:
        detail = error.strerror or repr(error)
        raise CannotStart(f"cannot write the audit log {path}: {detail}", "name another file") from error


SWITCH_SECONDS = 0.001
"""How long a thread that decodes or writes keeps the event loop from running: 5 ms otherwise, at each turn."""


def raise_file_limit() -> None:
    """Let this process open as many files as it may: each connection, watch and pod takes some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def outlive_pods() -> None:
    """Be ended after all pods when the machine's memory runs out, as a kubelet is; only root may say so."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("-999")


def _lock(paths: StatePaths, stack: contextlib.AsyncExitStack) -> None:
    """Be the only control plane of this state directory for as long as the process lives."""
    try:
        stack.callback(os.close, lock(paths.run / "controlplane.lock"))
    except BlockingIOError as error:
        raise CannotStart(f"another control plane runs on {paths.root}", "trainshed status") from error


async def _serve(
    paths: StatePaths,
    options: Options,
    report: Callable[[Report], None],
    *,
    pki: Pki,
    api: ApiServer,
    client: Client,
    runtime: Runtime,
    nodes: NodeGroup,
    rest: Stored | None,
) -> None:
    report(Report(step="API server"))
    store = api.core.store
    listener = listen(paths, options.port)
    port = listener.getsockname()[1]
    informers = SharedInformers(client, compact=(PODS,))
    parts: list[_Part] = [
        Scheduler(client, informers, names=options.scheduler_names),
        StorageController(client, informers, paths.volumes, runtime.remove_tree),
        EphemeralController(client, informers),
        *controllers(client, informers),
        NamespaceController(client, informers, store, pki.ca_pem),
        TokenController(client, informers, api.core.authenticator.issuer, pki.ca_pem),
        AggregationController(client, informers),
        FlowSchemaController(client, informers),
        Tekton(client, informers, Lookup(ImageRegistry(paths.images_file), ImageStore(paths.image_store))),
        NodeStateController(client, informers),
        AutoscalerController(client, informers),
        QuotaController(client, api.core),
        CertificateController(client, informers, lambda: pki.authority),
        GarbageCollector(client, store),
        _Log(),
        MemoryKeeper(store),
        informers,
        api,
    ]
    names = await settle_nodes(client, socket.gethostname(), options.nodes)
    if fakes := await settle_fakes(client, options.fake_nodes):
        from trainshed.cluster.node.fake.nodes import FakeNodes

        parts.append(FakeNodes(client, count=fakes, lifecycles=options.fake_lifecycles, stay=True))
    pulls = options.images != "machine"
    capabilities = msgspec.structs.replace(
        local_capabilities(plain=options.isolation == "plain"), pulls=pulls
    )
    machine = machine_of(client, runtime, informers, paths, capabilities=capabilities, options=options)
    gpus = detect()  # dealt out so that none is promised twice
    for number, name in enumerate(names):
        nodes.add(machine.add(name, NodeOptions(gpus=tuple(gpus[number :: len(names)]))))
    parts.append(machine)
    inside = await runtime.cluster_listener(API_ADDRESS, API_PORT)
    kubeconfig.write(paths.kubeconfig, kubeconfig.of_cluster(paths, port))
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)

    serving = asyncio.Event()
    tasks = [asyncio.create_task(part.run(), name=type(part).__name__) for part in parts]
    https = serve(api, [listener, inside], pki, stopping, started=serving.set, ending=api.end_streams)
    tasks.append(asyncio.create_task(https, name="serve"))
    install = partial(installing.install, client, store, pki, rest, options.install)
    tasks.append(asyncio.create_task(_ready(serving, install, paths, port, report), name="ready"))
    stop = asyncio.create_task(stopping.wait())
    pending: set[asyncio.Task[Any]] = {stop, *tasks}
    try:
        while not stopping.is_set():
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stop}:
                if (error := task.exception()) is not None:
                    # A part that failed for good must not leave a cluster that half works.
                    raise error
    finally:
        for task in (stop, *tasks):
            task.cancel()
        await asyncio.gather(stop, *tasks, return_exceptions=True)
        paths.info.unlink(missing_ok=True)


def machine_of(
    client: Client,
    runtime: Runtime,
    informers: SharedInformers,
    paths: StatePaths,
    *,
    capabilities: Capabilities,
    options: Options,
) -> Machine:
    """Return this machine, without nodes."""
    # A tool for egress may be installed and still not work here: ask the runtime, not the PATH.
    egress = Egress() if runtime.has_route else Egress(PROXY_URL)
    on_machine = MachineOptions(
        host_ip=LOOPBACK if capabilities.plain else GATEWAY,
        egress=egress,
        capabilities=capabilities,
        images=options.images,
        network=ClusterNetwork(host_searches=host_searches()),
        pids=local_pids_limit() if options.pids is None else options.pids,
    )
    return Machine(client, runtime, informers, NodePaths(paths.root), options=on_machine)


async def _ready(
    serving: asyncio.Event,
    install: Callable[[], Awaitable[None]],
    paths: StatePaths,
    port: int,
    report: Callable[[Report], None],
) -> None:
    """Install the operator's objects, say which process this is, and report that it is up."""
    await serving.wait()
    await install()
    info = Info(
        pid=os.getpid(),
        start_ticks=start_ticks(os.getpid()) or 0,
        port=port,
        started_at=time.time(),
        version=__version__,
    )
    write_private(paths.info, msgspec.json.encode(info))
    report(Report(ready=True))
    _collector.settle()
    await asyncio.Event().wait()
