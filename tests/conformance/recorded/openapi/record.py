"""Records the OpenAPI of a server: `python -m tests.conformance.recorded.openapi.record --kubeconfig FILE`."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

from tests.conformance.recorded.openapi.digests import of_document
from trainshed.client.config import connect, load_kubeconfig
from trainshed.client.transport import Transport
from trainshed.kube.meta.objects import Object
from trainshed.kube.wire.request import Request

FOLDER = Path(__file__).parent


async def documents(transport: Transport) -> dict[str, dict[str, str]]:
    """Return the digests of what a server publishes, by version."""

    async def get(path: str) -> Object:
        found: Object = json.loads((await transport.request(Request("GET", path))).body)
        return found

    third: dict[str, str] = {}
    for path in (await get("/openapi/v3"))["paths"]:
        if path.count("/") in (1, 2):
            third |= of_document(await get(f"/openapi/v3/{path}"))
    return {"v2": of_document(await get("/openapi/v2")), "v3": third}


async def record(kubeconfig: str) -> None:
    """Write the digests beside this file."""
    client = connect(load_kubeconfig(kubeconfig))
    try:
        found = await documents(client.transport)
        version = json.loads((await client.transport.request(Request("GET", "/version"))).body)
        name = f"{version['major']}.{version['minor'].rstrip('+')}.json"
        (FOLDER / name).write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
    finally:
        await client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kubeconfig", required=True)
    asyncio.run(record(parser.parse_args().kubeconfig))


if __name__ == "__main__":
    main()
