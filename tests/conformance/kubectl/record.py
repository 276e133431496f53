"""Records what kubectl prints: `python -m tests.conformance.kubectl.record --server URL --token TOKEN KUBECTL...`.

The namespace `recorded-kubectl` is made and deleted. No controllers should run but the one that deletes namespaces.
Prose of `explain` is not kept: it is Kubernetes' own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import tempfile
from pathlib import Path

from tests.conformance.kubectl.play import FOLDER, NAMESPACE, play


async def record(kubectl: str, server: list[str]) -> None:
    """Write the outputs of one kubectl to a file that is named after its minor version."""
    told = json.loads(
        subprocess.run([kubectl, "version", "--client", "-o", "json"], capture_output=True, check=True).stdout
    )
    minor = told["clientVersion"]["minor"].rstrip("+")
    subprocess.run([kubectl, *server, "create", "namespace", NAMESPACE], check=True)
    subprocess.run([kubectl, *server, "-n", NAMESPACE, "create", "serviceaccount", "default"], check=True)
    with tempfile.TemporaryDirectory() as home:
        said = await play(kubectl, Path(home), server)
    subprocess.run([kubectl, *server, "delete", "namespace", NAMESPACE], check=True)
    text = json.dumps(said, indent=1, ensure_ascii=False)
    (FOLDER / f"1.{minor}.json").write_text(text + "\n")
    print(f"1.{minor}: {len(said)} commands")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--server", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("kubectl", nargs="+")
    arguments = parser.parse_args()
    server = ["--server", arguments.server, "--token", arguments.token, "--insecure-skip-tls-verify"]
    for kubectl in arguments.kubectl:
        asyncio.run(record(kubectl, server))


if __name__ == "__main__":
    main()
