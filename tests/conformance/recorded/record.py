"""Records the answers of an API server: `python -m tests.conformance.recorded.record --kubeconfig FILE`.

Each sequence is played in a namespace of its own, `recorded-*`, which is deleted again; a CustomResourceDefinition
is made and deleted. Needs the rights of an administrator. Of the controllers those that delete have to run, and no
others should, as what they add comes at any time: `--controllers=namespace-controller,garbage-collector-controller,
persistentvolumeclaim-protection-controller`. Services get addresses of `--service-cluster-ip-range=10.96.0.0/16`.
`1.33` is of the kube-apiserver 1.33.13 that MicroShift 4.20 builds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import urllib.request
from pathlib import Path
from typing import Any

from tests.conformance.recorded.play import namespace_of, play
from tests.conformance.recorded.sequences import SEQUENCES
from trainshed.client.config import connect, load_kubeconfig
from trainshed.client.transport import Transport
from trainshed.kube.wire.request import Request

_GONE_SECONDS = 120.0
_PACE_SECONDS = 1.05
FOLDER = Path(__file__).parent


async def record(kubeconfig: str, only: str, etcd: str) -> None:
    """Write the answers to each sequence below a folder that is named after the server's minor version."""
    client = connect(load_kubeconfig(kubeconfig))
    transport = client.transport
    try:
        version = json.loads((await transport.request(Request("GET", "/version"))).body)
        folder = FOLDER / f"{version['major']}.{version['minor'].rstrip('+')}"
        folder.mkdir(exist_ok=True)
        for name, steps in SEQUENCES.items():
            if only in name:
                answers = await play(
                    transport,
                    name,
                    steps,
                    lambda: asyncio.sleep(_PACE_SECONDS),
                    compact=lambda: asyncio.to_thread(_compact, etcd),
                )
                await _until_gone(transport, namespace_of(name))
                text = json.dumps(answers, indent=1, sort_keys=True, ensure_ascii=False)
                (folder / f"{name.replace(' ', '-')}.json").write_text(text + "\n")
                print(f"{name}: {len(answers)} answers")
    finally:
        await client.close()


def _compact(etcd: str) -> None:
    """Have etcd forget what was before its present state."""

    def ask(path: str, body: dict[str, object]) -> Any:
        with urllib.request.urlopen(f"{etcd}/v3/kv/{path}", json.dumps(body).encode()) as answer:
            return json.load(answer)

    revision = ask("range", {"key": "AA=="})["header"]["revision"]
    ask("compaction", {"revision": revision, "physical": True})


async def _until_gone(transport: Transport, namespace: str) -> None:
    """Wait for a namespace's end, so that the next recording starts with nothing in it."""
    async with asyncio.timeout(_GONE_SECONDS):
        while (await transport.request(Request("GET", f"/api/v1/namespaces/{namespace}"))).status != 404:
            await asyncio.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--only", default="", help="sequences whose name contains this")
    parser.add_argument("--etcd", default="http://127.0.0.1:2379", help="where its etcd is, to be compacted")
    arguments = parser.parse_args()
    asyncio.run(record(arguments.kubeconfig, arguments.only, arguments.etcd))


if __name__ == "__main__":
    main()
