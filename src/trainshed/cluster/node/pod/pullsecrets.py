"""imagePullSecrets of a pod."""

from __future__ import annotations

from typing import Any

import msgspec

from trainshed.cluster.node.podfields import secret_bytes
from trainshed.cluster.node.references import References
from trainshed.kube.meta.objects import Object


def secret_names(pod: Object) -> list[str]:
    """Return the names of the pod's imagePullSecrets; entries without one are taken by the API, and mean nothing."""
    return [each["name"] for each in pod["spec"].get("imagePullSecrets") or () if each.get("name")]


def pull_secrets(pod: Object, references: References) -> list[Any]:
    """Return the documents of the pod's imagePullSecrets; as with the kubelet, what is missing or malformed is not."""
    documents = []
    for name in secret_names(pod):
        secret = references.get("secrets", name)
        values = {} if secret is None else secret_bytes(secret)
        for key in (".dockerconfigjson", ".dockercfg"):
            try:
                documents.append(msgspec.json.decode(values[key]))
            except (KeyError, msgspec.DecodeError, RecursionError):
                continue
    return documents


def missing_secrets(pod: Object, references: References) -> str:
    """Return what a kubelet says of imagePullSecrets that are not there, or nothing."""
    gone = ", ".join(name for name in secret_names(pod) if references.get("secrets", name) is None)
    said = "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed."
    return said.format(gone) if gone else ""
