"""Writes what the store of a new cluster holds first: `python scripts/generate_newcluster.py [--check]`.

    src/trainshed/cli/newcluster.jsonl   what an API server has stored after the requests of a first start

`--check` writes nothing and exits with 1 when the file is not what the code would store.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from trainshed.cli.newcluster import FILE, TIME, Entry
from trainshed.client.asgi import AsgiTransport
from trainshed.client.client import Client
from trainshed.client.controllers.informers import SharedInformers
from trainshed.cluster.apiserver.app import ApiServer
from trainshed.cluster.apiserver.bootstrap import bootstrap
from trainshed.cluster.control.controlplane import IDENTITY, USER_AGENT
from trainshed.cluster.controllers.aggregatedroles import AggregationController
from trainshed.cluster.controllers.flowschemas import FlowSchemaController
from trainshed.cluster.pki import ensure_pki
from trainshed.cluster.scheduler.install import FIELD_MANAGER, install
from trainshed.cluster.store import Store, keys
from trainshed.kube.meta.objects import Object, name_of, section
from trainshed.kube.meta.resources import APISERVICES, CLUSTERROLES, CRDS, FLOWSCHEMAS, Resource
from trainshed.kube.meta.times import format_time
from trainshed.kube.served import apiservices
from trainshed.operator.install import definitions
from trainshed.tekton import crds
from trainshed.tekton.versions import CONVERSIONS

CLOCK = 1_000_000_000.0
SECONDS = 60.0


def text() -> str:
    """Return what belongs in the file."""
    with tempfile.TemporaryDirectory() as home:
        return asyncio.run(_made(Path(home)))


async def _made(home: Path) -> str:
    store = await Store.open(home / "store.db")
    api = ApiServer.secured(store, ensure_pki(home / "pki"), conversions=CONVERSIONS)
    api.core.clock = lambda: CLOCK
    client = Client(AsgiTransport(api, IDENTITY, ["system:masters"]), user_agent=USER_AGENT)
    await bootstrap(client, CLOCK)
    await install(client)
    for definition in (*crds.crds(), *definitions()):
        await client.apply(CRDS, definition, field_manager=FIELD_MANAGER)
    informers = SharedInformers(client)
    parts = (
        AggregationController(client, informers),
        FlowSchemaController(client, informers, api.core.clock),
        informers,
        api,
    )
    tasks = [asyncio.create_task(part.run()) for part in parts]
    try:
        async with asyncio.timeout(SECONDS):
            await _until(tasks, lambda: _is_settled(api))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()
    job_kinds = {name_of(definition): definition for definition in definitions()}
    lines = [
        _line(stored.key, msgspec.json.decode(stored.encoded), job_kinds) for stored in store.list("/")[0]
    ]
    await store.close()
    return "".join(lines)


async def _until(tasks: list[asyncio.Task[None]], holds: Callable[[], bool]) -> None:
    while not holds():
        for task in tasks:
            if task.done():
                task.result()
        await asyncio.sleep(0.01)


def _is_settled(api: ApiServer) -> bool:
    """Return whether the controllers have said what they have to say of these objects."""

    def held(resource: Resource) -> list[Object]:
        return [stored.obj for stored in api.core.store.list(keys.under(resource))[0]]

    served = apiservices.local(api.core.kinds.registry, format_time(CLOCK))
    return (
        {name_of(service) for service in held(APISERVICES)} == served.keys()
        and all(section(schema, "status").get("conditions") for schema in held(FLOWSCHEMAS))
        and all(role.get("rules") for role in held(CLUSTERROLES))
    )


def _line(key: str, obj: Object, job_kinds: dict[str, Object]) -> str:
    metadata = obj["metadata"]
    metadata["uid"] = ""
    del metadata["resourceVersion"]
    if key.startswith(keys.under(CRDS)) and metadata["name"] in job_kinds:
        assert obj["spec"]["versions"] == job_kinds[metadata["name"]]["spec"]["versions"]
        obj["spec"]["versions"] = []
    line = msgspec.json.encode(Entry(key, obj)).decode()
    return line.replace(format_time(CLOCK), TIME) + "\n"


def main() -> int:
    """Write the file, or with `--check` return 1 when it differs."""
    wanted = text()
    if sys.argv[1:] == ["--check"]:
        if FILE.read_text() == wanted:
            return 0
        sys.stderr.write(
            f"{FILE} differs: run `python scripts/generate_newcluster.py` and commit the result\n"
        )
        return 1
    FILE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
