"""`up --encryption-provider-config`: what is on the disk, keys that change, keys that are missing."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

from tests.e2e.cluster_fixture import Cluster

NEEDLE = "not-to-be-read-on-the-disk"


def configuration(file: Path, *providers: tuple[str, str]) -> Path:
    """Write an EncryptionConfiguration with a key for each provider, named like it, and nothing in the clear."""
    entries = [
        {provider: {"keys": [{"name": key, "secret": base64.b64encode(key.encode().ljust(32)).decode()}]}}
        for provider, key in providers
    ]
    resources = [{"resources": ["secrets"], "providers": [*entries, {"identity": {}}]}]
    document = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration"}
    file.write_text(json.dumps({**document, "resources": resources}))
    return file


def on_disk(cluster: Cluster) -> bytes:
    return b"".join(file.read_bytes() for file in cluster.home.glob("store.db*"))


def held(cluster: Cluster) -> str:
    return base64.b64decode(cluster.get("secrets", "db")["data"]["password"]).decode()


def test_a_secret_is_encrypted_under_keys_that_change(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster()
    cluster.up()
    cluster.kubectl("create", "secret", "generic", "db", f"--from-literal=password={NEEDLE}").ok()
    plain = base64.b64encode(NEEDLE.encode())
    assert plain in on_disk(cluster)
    cluster.trainshed("down").ok()

    file = configuration(cluster.scratch / "keys.json", ("aescbc", "first"))
    cluster.trainshed("up", "--encryption-provider-config", str(file)).ok()
    assert held(cluster) == NEEDLE, "what was there before can be read"
    assert plain not in on_disk(cluster) and b"k8s:enc:aescbc:v1:first:" in on_disk(cluster)
    secrets = cluster.kubectl("get", "secrets", "-A", "-o", "json").ok()
    assert "secret/db replaced" in cluster.kubectl("replace", "-f", "-", stdin=secrets).ok()
    cluster.kubectl("create", "secret", "generic", "later", f"--from-literal=password={NEEDLE}").ok()
    backup = cluster.scratch / "backup.jsonl"
    cluster.trainshed("backup", str(backup)).ok()
    assert plain not in on_disk(cluster) + backup.read_bytes()
    cluster.trainshed("down").ok()

    configuration(file, ("aesgcm", "second"), ("aescbc", "first"))
    cluster.up()  # remembers where the file is
    assert held(cluster) == NEEDLE
    cluster.trainshed("down").ok()
    assert b"k8s:enc:aesgcm:v1:second:" in on_disk(cluster) and b"aescbc" not in on_disk(cluster)

    configuration(file, ("aesgcm", "third"))
    refused = cluster.trainshed("up")
    assert refused.rc == 3, refused
    assert "is encrypted by aesgcm with the key 'second': no key of that name" in refused.err
    assert "trainshed up --encryption-provider-config" in refused.err

    configuration(file, ("aesgcm", "second"))  # the first may go
    cluster.up()
    assert held(cluster) == NEEDLE
