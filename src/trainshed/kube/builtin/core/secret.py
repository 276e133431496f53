"""Secrets: `stringData` is folded into `data`, and some types need certain keys."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.columns import Columns, age, define
from trainshed.kube.builtin.parts.configdata import frozen_causes, key_causes, total_causes
from trainshed.kube.builtin.parts.pod.defaults import setdefault
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.fieldselectors import paths
from trainshed.kube.meta.objects import Object, name_of, section
from trainshed.kube.meta.resources import SECRETS
from trainshed.kube.wire.body import json_kind
from trainshed.kube.wire.gojson import syntax_error

_REQUIRED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def _not_a_map(encoded: str) -> str:
    """Return what Go says of a text that is to be a JSON object; empty where it is one."""
    data = base64.b64decode(encoded)
    if wrong := syntax_error(data):
        return wrong
    found = msgspec.json.decode(data)
    if found is None or isinstance(found, dict):
        return ""
    return f"json: cannot unmarshal {json_kind(found)} into Go value of type map[string]interface {{}}"


def _defaults(obj: Object) -> None:
    setdefault(obj, "type", "Opaque")
    text = obj.pop("stringData", None)
    if text:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
        obj["data"] = {**section(obj, "data"), **encoded}


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    """Yield what is wrong with a Secret whose `stringData` is folded into `data`."""
    data, kind = section(obj, "data"), obj.get("type") or "Opaque"
    yield from key_causes(data, "data")
    yield from total_causes(data)
    if old is not None and kind != (old.get("type") or "Opaque"):
        yield causes.invalid("type", kind, "field is immutable")
    for key in _REQUIRED_KEYS.get(kind, ()):
        if key not in data:
            yield causes.required(f"data[{key}]")
        elif kind.startswith("kubernetes.io/docker") and (wrong := _not_a_map(data[key])):
            yield causes.invalid(f"data[{key}]", "<secret contents redacted>", wrong)
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & set(data):
        yield causes.required("data[username]")
        yield causes.required("data[password]")
    if kind == "kubernetes.io/service-account-token":
        annotations = section(obj, "metadata", "annotations")
        if not annotations.get("kubernetes.io/service-account.name"):
            yield causes.required("metadata.annotations[kubernetes.io/service-account.name]")
    if old is not None and old.get("immutable"):
        yield from frozen_causes(obj, old, ("data",))


def _row(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), obj.get("type", ""), len(obj.get("data") or ()), age(obj, now)]


def _warns(obj: Object, old: Object | None) -> Iterator[str]:
    """Yield why no server can load a TLS secret; whether the certificate is one, and of the key, is not looked at."""
    if obj.get("type") == "kubernetes.io/tls":
        data = section(obj, "data")
        certificate, key = (_pem_blocks(data.get(name) or "") for name in ("tls.crt", "tls.key"))
        if wrong := _of_certificate(certificate) or _of_key(key):
            yield wrong


_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\r?\n[^-]*-----END \1-----")


def _pem_blocks(encoded: str) -> list[str]:
    return [kind.decode() for kind in _PEM.findall(base64.b64decode(encoded))]


def _of_certificate(kinds: list[str]) -> str:
    """Return what Go says of a certificate's file with these PEM blocks (`tls.X509KeyPair`), or nothing."""
    if "CERTIFICATE" in kinds:
        return ""
    if not kinds:
        return "tls: failed to find any PEM data in certificate input"
    if len(kinds) == 1 and kinds[0].endswith("PRIVATE KEY"):
        found = "certificate input, but did find a private key; PEM inputs may have been switched"
        return f"tls: failed to find certificate PEM data in {found}"
    skipped = f"after skipping PEM blocks of the following types: [{' '.join(kinds)}]"
    return f'tls: failed to find "CERTIFICATE" PEM block in certificate input {skipped}'


def _of_key(kinds: list[str]) -> str:
    if any(kind.endswith("PRIVATE KEY") for kind in kinds):
        return ""
    if not kinds:
        return "tls: failed to find any PEM data in key input"
    if kinds == ["CERTIFICATE"]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    skipped = f"after skipping PEM blocks of the following types: [{' '.join(kinds)}]"
    return f'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input {skipped}'


KIND = Builtin(
    info=row(SECRETS),
    does="env, envFrom and volumes of pods; tokens of service accounts are filled in",
    defaults=_defaults,
    check=_check,
    warns=_warns,
    columns=Columns(define("Name, Type, Data, Age"), _row),
    fields=paths("type"),
    edited=("",),
)
