"""Where the types of built-in kinds come from, for 0006: `python docs/decisions/measure/schema.py`.

lightkube-models and the kubernetes client are measured when they are installed.
"""
# ruff: noqa: T201

from __future__ import annotations

import importlib.util
from importlib import metadata

from figures import cost, print_table, print_versions

POD = "['apiVersion', 'kind', 'metadata', 'spec', 'status']"
CASES = {
    "`kube.schema.nodes`: imported": ("", "import trainshed.kube.schema.nodes"),
    "`kube.schema.nodes`: the schema of Pod": (
        "",
        "from trainshed.kube.schema.nodes import builtin\\n"
        "node = builtin(('', 'v1', 'Pod')).properties['spec'].properties['containers'].items\\n"
        "assert node.properties['image'].type == 'string'",
    ),
    "`kube.schema.nodes`: every node of Pod": (
        "",
        "from trainshed.kube.schema.nodes import builtin\\n"
        "def walk(node, seen):\\n"
        "    if node is None or id(node) in seen: return\\n"
        "    seen[id(node)] = node\\n"
        "    for child in node.properties.values(): walk(child, seen)\\n"
        "    walk(node.items, seen); walk(node.additional, seen)\\n"
        "walk(builtin(('', 'v1', 'Pod')), {})",
    ),
    "the same JSON decoded whole by `json`": (
        "",
        "import json, importlib.util, pathlib\\n"
        "from trainshed.kube.schema.nodes import KUBERNETES_MINOR\\n"
        "folder = pathlib.Path(importlib.util.find_spec('kubernetes_validate').submodule_search_locations[0])\\n"
        "found = sorted(folder.glob(f'**/*{KUBERNETES_MINOR}*/_definitions.json'))\\n"
        "document = json.loads(found[0].read_bytes())",
    ),
    "lightkube-models: core_v1": ("lightkube", "import lightkube.models.core_v1"),
    "lightkube-models: the groups served here": (
        "lightkube",
        "from lightkube.models import (core_v1, apps_v1, batch_v1, rbac_v1, storage_v1, policy_v1, networking_v1,"
        " autoscaling_v2, autoscaling_v1, coordination_v1, discovery_v1, events_v1, scheduling_v1,"
        " admissionregistration_v1, apiextensions_v1, apiregistration_v1, certificates_v1, authentication_v1,"
        " authorization_v1, node_v1, flowcontrol_v1)",
    ),
    "kubernetes client: its models": ("kubernetes", "import kubernetes.client"),
}


def size_mib(distribution: str) -> float:
    """Return the size of an installed distribution's files."""
    files = metadata.distribution(distribution).files or ()
    return sum(f.locate().stat().st_size for f in files if f.locate().is_file()) / 2**20  # type: ignore[union-attr]


def main() -> None:
    distributions = ["kubernetes-validate", "lightkube-models", "kubernetes"]
    installed = []
    for name in distributions:
        try:
            metadata.version(name)
            installed.append(name)
        except metadata.PackageNotFoundError:
            continue
    print_versions("msgspec", *installed)
    rows = []
    for name, (needs, code) in CASES.items():
        if not needs or importlib.util.find_spec(needs):
            milliseconds, mebibytes = cost(code.replace("\\n", "\n"))
            rows.append([name, f"{milliseconds:.0f} ms", f"{mebibytes:.1f} MiB"])
    print_table(["in a fresh process", "time", "resident"], rows)
    print()
    print_table(["installed", "files"], [[name, f"{size_mib(name):.0f} MiB"] for name in installed])


if __name__ == "__main__":
    main()
