"""Discovery documents: what a client reads to learn which kinds are served where.

Two families: the legacy lists (one document per group and version) and aggregated discovery
(`apidiscovery.k8s.io`, KEP-3352), which answers the same question in two requests. kubectl caches both on
disk, so a document must change as soon as a CRD does; `etag` names its content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resourceinfo import ResourceInfo, SubresourceInfo
from trainshed.kube.served.registry import Registry

_CORE_GROUP = ""


def api_versions(server_address: str) -> Object:
    """Return the document at `/api`. `server_address` is `host:port` as the client reached it."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    }


def api_group_list(registry: Registry) -> Object:
    """Return the document at `/apis`: every named group in order of preference."""
    groups = [_group(registry, group) for group in registry.groups() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(registry: Registry, group: str) -> Object | None:
    """Return the document at `/apis/<group>`, or None when nothing serves the group."""
    if not group or not registry.has_group(group):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(registry, group)}


def _group(registry: Registry, group: str) -> Object:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version} for version in registry.versions(group)
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def api_resource_list(registry: Registry, group: str, version: str) -> Object | None:
    """Return the document at `/api/v1` or `/apis/<group>/<version>`, or None when it is not served."""
    infos = registry.resources(group, version)
    if not infos:
        return None
    entries: list[Object] = []
    for info in infos:
        entries.append(_legacy_resource(info))
        # Those of custom kinds come as they are declared, those of built-in ones by name.
        below = info.subresources.items() if info.crd else sorted(info.subresources.items())
        entries += [_legacy_subresource(info, name, sub) for name, sub in below]
    # Upstream's answer for the core group has been without a version of its own from the beginning.
    typed = {"apiVersion": "v1"} if infos[0].resource.group else {}
    return {
        "kind": "APIResourceList",
        **typed,
        "groupVersion": infos[0].resource.api_version,
        "resources": entries,
    }


def _legacy_resource(info: ResourceInfo) -> Object:
    out: Object = {
        "name": info.resource.plural,
        "singularName": info.singular,
        "namespaced": info.resource.namespaced,
        "kind": info.resource.kind,
        "verbs": list(info.verbs),
    }
    if info.short_names:
        out["shortNames"] = list(info.short_names)
    if info.categories:
        out["categories"] = list(info.categories)
    if info.stored:
        # Clients only compare it; upstream hashes the storage path too.
        out["storageVersionHash"] = _digest(info.storage.api_version + info.storage.kind)[:11] + "="
    return out


def _legacy_subresource(info: ResourceInfo, name: str, sub: SubresourceInfo) -> Object:
    out: Object = {
        "name": f"{info.resource.plural}/{name}",
        "singularName": "",
        "namespaced": info.resource.namespaced,
    }
    if sub.version:
        out |= {"group": sub.group, "version": sub.version}
    out |= {"kind": sub.kind or info.resource.kind, "verbs": list(sub.verbs)}
    return out


def aggregated(registry: Registry, *, core: bool, version: str) -> Object:
    """Return aggregated discovery for `/api` (`core`) or `/apis`; `version` is `v2` or `v2beta1`."""
    groups = [group for group in registry.groups() if (group == _CORE_GROUP) == core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [_aggregated_group(registry, group) for group in groups],
    }


def _aggregated_group(registry: Registry, group: str) -> Object:
    versions = [_aggregated_version(registry, group, version) for version in registry.versions(group)]
    return {"metadata": {"name": group} if group else {}, "versions": versions}


def _aggregated_version(registry: Registry, group: str, version: str) -> Object:
    external = registry.external(group, version)
    if external is None:
        resources = [_aggregated_resource(info) for info in registry.resources(group, version)]
        return {"version": version, "resources": resources, "freshness": "Current"}
    return {
        "version": version,
        "resources": from_legacy(external.resources, group, version),
        "freshness": "Current" if external.current else "Stale",
    }


def from_legacy(entries: Sequence[Object], group: str, version: str) -> list[Object]:
    """Return the entries of an APIResourceList as aggregated discovery has them."""
    out: dict[str, Object] = {}
    for entry in entries:
        name, _, part = str(entry.get("name", "")).partition("/")
        answer = {
            "group": entry.get("group") or group,
            "version": entry.get("version") or version,
            "kind": entry.get("kind") or "",
        }
        scope = "Namespaced" if entry.get("namespaced") else "Cluster"
        # A subresource may come without its resource, or before it.
        held = out.setdefault(name, {"resource": name, "scope": scope, "singularResource": "", "verbs": []})
        verbs = list(entry.get("verbs") or ())
        if part:
            sub = {"subresource": part, "responseKind": answer, "verbs": verbs}
            held.setdefault("subresources", []).append(sub)
            continue
        held |= {"responseKind": answer, "scope": scope, "verbs": verbs}
        held["singularResource"] = entry.get("singularName") or ""
        held |= {key: list(entry[key]) for key in ("shortNames", "categories") if entry.get(key)}
    return list(out.values())


def _aggregated_resource(info: ResourceInfo) -> Object:
    out: Object = {
        "resource": info.resource.plural,
        "responseKind": {"group": "", "version": "", "kind": info.resource.kind},
        "scope": "Namespaced" if info.resource.namespaced else "Cluster",
        "singularResource": info.singular,
        "verbs": list(info.verbs),
    }
    if info.short_names:
        out["shortNames"] = list(info.short_names)
    if info.categories:
        out["categories"] = list(info.categories)
    if info.subresources:
        out["subresources"] = [
            {
                "subresource": name,
                "responseKind": {
                    "group": sub.group,
                    "version": sub.version,
                    "kind": sub.kind or info.resource.kind,
                },
                "verbs": list(sub.verbs),
            }
            for name, sub in sorted(info.subresources.items())
        ]
    return out


def etag(document: Object) -> str:
    """Return the quoted ETag of a document: equal content, equal tag."""
    return f'"{_digest_bytes(msgspec.json.encode(document, order="sorted")).upper()}"'


def matches(if_none_match: str | None, tag: str) -> bool:
    """Return whether an `If-None-Match` header names `tag`, so that 304 is the answer."""
    if not if_none_match:
        return False
    names = {part.strip().removeprefix("W/") for part in if_none_match.split(",")}
    return "*" in names or tag in names


def _digest(text: str) -> str:
    return _digest_bytes(text.encode())


def _digest_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
