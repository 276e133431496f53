"""What labels of nodes were called, and are.

Source: `pkg/api/node/util.go` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.meta.objects import Object, objects, section

CURRENT = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
}
"""Today's name of each label that had another."""
_SINCE_1_14 = ("beta.kubernetes.io/arch", "beta.kubernetes.io/os")


def deprecation(label: str) -> str:
    """Return what is to be said of a label; empty for those that are called so today."""
    if label not in CURRENT:
        return ""
    since = "v1.14" if label in _SINCE_1_14 else "v1.17"
    return f'deprecated since {since}; use "{CURRENT[label]}" instead'


def key_warnings(expressions: Object, field: str, path: str) -> Iterator[str]:
    """Yield the warnings of the keys of `expressions[field]`, which is at `path`."""
    for index, expression in enumerate(objects(expressions, field)):
        key = expression.get("key") or ""
        if text := deprecation(key):
            yield f"{path}[{index}].key: {key} is {text}"


def selector_warnings(selector: Object, path: str) -> Iterator[str]:
    """Yield the warnings of a LabelSelector that selects nodes, or places by their labels."""
    yield from key_warnings(selector, "matchExpressions", f"{path}.matchExpressions")
    for label in section(selector, "matchLabels"):
        if text := deprecation(label):
            yield f"{path}.matchLabels.{label}: {text}"
