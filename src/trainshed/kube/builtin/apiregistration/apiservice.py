"""APIServices: who serves a group and version, this API server or one behind a Service.

Source of rules and texts: `kube-aggregator/pkg/apis/apiregistration/validation/validation.go`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from trainshed.kube.builtin.kind import STATUS, Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta import causes, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, name_of, objects, section, spec_of, status_of
from trainshed.kube.meta.resources import APISERVICES


def _defaults(obj: Object) -> None:
    service = section(obj, "spec").get("service")
    if service is not None:
        setdefault(service, "port", 443)
    obj.setdefault("status", {})


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    spec = spec_of(obj)
    group, version = spec.get("group") or "", spec.get("version") or ""
    if name_of(obj) != f"{version}.{group}":
        text = f'must be `spec.version+"."+spec.group`: "{version}.{group}"'
        yield causes.invalid("metadata.name", name_of(obj), text)
    if not group:
        if version != "v1":
            yield causes.required(
                "spec.group", "only v1 may have an empty group and it better be legacy kube"
            )
    else:
        for why in names.dns_subdomain(group):
            yield causes.invalid("spec.group", group, why)
    for why in names.dns_1035_label(version):
        yield causes.invalid("spec.version", version, why)
    for field, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        value = spec.get(field) or 0
        if not 0 < value <= most:
            yield causes.invalid(f"spec.{field}", value, f"must be positive and less than {most}")
    yield from _client(spec)


def _client(spec: Object) -> Iterator[Cause]:
    bundle, insecure = spec.get("caBundle") or "", bool(spec.get("insecureSkipTLSVerify"))
    if spec.get("service") is None:
        if bundle:
            text = "local APIServices may not have a caBundle"
            yield causes.invalid("spec.caBundle", f"{len(_bytes(bundle))} bytes", text)
        if insecure:
            text = "local APIServices may not have insecureSkipTLSVerify"
            yield causes.invalid("spec.insecureSkipTLSVerify", insecure, text)
        return
    service = section(spec, "service")
    for field in ("namespace", "name"):
        if not service.get(field):
            yield causes.required(f"spec.service.{field}")
    if not 1 <= service.get("port", 443) <= 65535:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        yield causes.invalid("spec.service.port", service["port"], text)
    if insecure and bundle:
        yield causes.invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return text.encode()


def _row(obj: Object, now: float) -> list[Any]:
    service = section(spec_of(obj), "service")
    where = f"{service.get('namespace')}/{service.get('name')}" if service else "Local"
    held = objects(status_of(obj), "conditions")
    available = next((one for one in held if one.get("type") == "Available"), {})
    shown = str(available.get("status", "Unknown"))
    if shown != "True" and available.get("reason"):
        shown += f" ({available['reason']})"
    return [name_of(obj), where, shown, age(obj, now)]


KIND = Builtin(
    info=row(APISERVICES, categories=("api-extensions",), subresources=STATUS, unconditional_update=False),
    does="requests go to the pods behind its Service; checked every half minute; discovery and OpenAPI merged",
    lacks="garbage collection and the end of a namespace do not reach its objects",
    name_rule=names.path_segment,
    defaults=_defaults,
    check=_check,
    columns=Columns(define("Name, Service, Available, Age"), _row),
)
