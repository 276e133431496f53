"""Content negotiation: which representation of an answer a client asks for, and what its body is.

The Accept list is walked in order and the first clause that can be served wins; q-values other than
`q=0` are not weighed, as in the API server of Kubernetes. Parameters come in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from trainshed.kube.meta.errors import not_acceptable, unsupported_media_type

Form = Literal["json", "yaml", "table", "partial", "partial_list", "discovery"]
BodyFormat = Literal["json", "yaml", "protobuf"]

PROTOBUF = "application/vnd.kubernetes.protobuf"
OPENAPI_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_OPENAPI_V2_SPELLINGS = (OPENAPI_V2_PROTOBUF, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
_JSON_RANGES = ("application/json", "application/*", "*/*")
_YAML = "application/yaml"
_META_FORMS: dict[str, Form] = {
    "Table": "table",
    "PartialObjectMetadata": "partial",
    "PartialObjectMetadataList": "partial_list",
}


class MediaType(msgspec.Struct, frozen=True):
    """One clause of an Accept or Content-Type header; names and type are lower case."""

    name: str
    parameters: dict[str, str]


class Representation(msgspec.Struct, frozen=True):
    """How to write an answer. `version` is that of the meta or discovery API, empty for plain objects."""

    form: Form
    version: str = ""

    @property
    def content_type(self) -> str:
        """The Content-Type header of the answer."""
        if self.form == "yaml":
            return _YAML
        if self.form == "discovery":
            return f"application/json;g=apidiscovery.k8s.io;v={self.version};as=APIGroupDiscoveryList"
        return "application/json"


JSON = Representation("json")
YAML = Representation("yaml")
_JSON = (None, "", "*/*", "application/json")
"""What most ask for."""


def parse_media_type(text: str) -> MediaType:
    """Return one media type with its parameters; malformed parameters are dropped."""
    name, *rest = text.split(";")
    parameters: dict[str, str] = {}
    for part in rest:
        key, equals, value = part.partition("=")
        if equals:
            parameters[key.strip().lower()] = value.strip().strip('"')
    return MediaType(name.strip().lower(), parameters)


def parse_accept(header: str | None) -> list[MediaType]:
    """Return the clauses of an Accept header in order; an absent header accepts anything."""
    clauses = [parse_media_type(part) for part in (header or "").split(",") if part.strip()]
    if not clauses:
        return [MediaType("*/*", {})]
    return [clause for clause in clauses if clause.parameters.get("q") not in ("0", "0.0", "0.00", "0.000")]


def for_objects(accept: str | None) -> Representation:
    """Return the representation of an object, list or watch.

    Raises:
        ApiError: 406 when every clause names a format that is never produced (protobuf, CBOR, HTML).
    """
    return JSON if accept in _JSON else _chosen(accept, _object_form)


def for_initial_events(accept: str | None) -> Representation:
    """Return the representation of a watch that begins with what there is: no table, for it ends with a bookmark.

    Raises:
        ApiError: 406 as `for_objects`, and when nothing but tables is asked for.
    """
    return _chosen(
        accept, lambda parameters: _no_table(_object_form(parameters)), "application/json", _YAML, PROTOBUF
    )


def for_plain(accept: str | None) -> Representation:
    """Return the representation of what has neither table nor metadata to show, such as a review.

    Raises:
        ApiError: 406 as `for_objects`, and when nothing but those is asked for.
    """
    return _chosen(accept, lambda parameters: None)


def for_discovery(accept: str | None) -> Representation:
    """Return the representation of `/api` and `/apis`: aggregated discovery or the legacy lists.

    Raises:
        ApiError: 406 as `for_objects`.
    """
    return _chosen(accept, _discovery_form)


def _chosen(
    accept: str | None, form: Callable[[Mapping[str, str]], Representation | None], *types: str
) -> Representation:
    """Return the first representation that is produced; `form` names those with the parameter `as`.

    Raises:
        ApiError: 406 where none is, with what there is: `types`.
    """
    for clause in parse_accept(accept):
        plain = "as" not in clause.parameters
        if clause.name == _YAML and plain:
            return YAML
        if clause.name not in _JSON_RANGES:
            continue
        if plain:
            return JSON
        found = form(clause.parameters)
        if found is not None:
            return found
    raise not_acceptable(*types)


def _object_form(parameters: Mapping[str, str]) -> Representation | None:
    form, version = _META_FORMS.get(parameters["as"]), parameters.get("v", "")
    if form and parameters.get("g") == "meta.k8s.io" and version in ("v1", "v1beta1"):
        return Representation(form, version)
    return None


def _no_table(found: Representation | None) -> Representation | None:
    return None if found is None or found.form == "table" else found


def _discovery_form(parameters: Mapping[str, str]) -> Representation | None:
    version = parameters.get("v", "")
    named = parameters["as"] == "APIGroupDiscoveryList" and parameters.get("g") == "apidiscovery.k8s.io"
    return Representation("discovery", version) if named and version in ("v2", "v2beta1") else None


def wants_openapi_v2_protobuf(accept: str | None) -> bool:
    """Return whether `/openapi/v2` is asked for as protobuf before JSON."""
    for clause in parse_accept(accept):
        if clause.name in _OPENAPI_V2_SPELLINGS:
            return True
        if clause.name in _JSON_RANGES:
            return False
    return False


def body_format(content_type: str | None) -> BodyFormat:
    """Return the format of a request body; clients that send no Content-Type mean JSON.

    Raises:
        ApiError: 415 for any other format.
    """
    name = parse_media_type(content_type or "").name
    if name in ("", "application/json"):
        return "json"
    if name == _YAML:
        return "yaml"
    if name == PROTOBUF:
        return "protobuf"
    raise unsupported_media_type(("application/json", _YAML, PROTOBUF))
