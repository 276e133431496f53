"""An API server with the controllers that API tests need, and no node: `python api_process.py HOME`.

Prints `ready` once it answers; ends on SIGTERM. The kubeconfig is `HOME/kubeconfig`.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from trainshed.client.asgi import AsgiTransport
from trainshed.client.client import Client
from trainshed.client.controllers.informers import SharedInformers
from trainshed.cluster.apiserver.app import ApiServer
from trainshed.cluster.apiserver.bootstrap import bootstrap
from trainshed.cluster.apiserver.serve import serve
from trainshed.cluster.control import kubeconfig
from trainshed.cluster.controllers.certificaterequests import CertificateController
from trainshed.cluster.controllers.garbage import GarbageCollector
from trainshed.cluster.controllers.namespaces import NamespaceController
from trainshed.cluster.controllers.workloads.deployments import DeploymentController
from trainshed.cluster.controllers.workloads.replicasets import ReplicaSetController
from trainshed.cluster.paths import StatePaths
from trainshed.cluster.pki import ensure_pki
from trainshed.cluster.store import Store


async def main(home: Path, ready: Callable[[], None] = lambda: None) -> None:
    paths = StatePaths(home).prepare()
    pki = ensure_pki(paths.pki)
    store = await Store.open(paths.store)
    api = ApiServer.secured(store, pki)
    client = Client(AsgiTransport(api, "system:controllers", ["system:masters"]))
    await bootstrap(client)
    informers = SharedInformers(client)
    parts = [
        NamespaceController(client, informers, store, pki.ca_pem),
        GarbageCollector(client, store),
        ReplicaSetController(client, informers),
        DeploymentController(client, informers),
        CertificateController(client, informers, lambda: pki.authority),
        informers,
        api,
    ]
    listener = socket.create_server(("127.0.0.1", 0))
    server = f"https://127.0.0.1:{listener.getsockname()[1]}"
    kubeconfig.write(
        paths.kubeconfig, kubeconfig.document(server, pki.ca_pem, pki.admin_token, home=paths.root)
    )
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    tasks = [asyncio.create_task(part.run()) for part in parts]

    def started() -> None:
        ready()
        print("ready", flush=True)

    await serve(api, [listener], pki, stopping, started=started)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
