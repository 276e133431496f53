"""The options of each verb: what clients write into a query, and what servers read from it.

Each type declares its parameters once; names on the wire, `encode` and `decode` follow from the declaration, so
that what one end writes the other reads. A parameter that has its default value is left out. Unknown parameters
are ignored, and of a repeated one the first counts, as upstream.

Source: `GetOptions`, `ListOptions`, `CreateOptions`, `UpdateOptions`, `PatchOptions`, `DeleteOptions` of
meta.k8s.io/v1, `PodLogOptions`, `PodExecOptions`, `PodPortForwardOptions` of v1, and `url.Values` conversion of
apimachinery for how texts become values.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

import msgspec

from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause, bad_request, invalid
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.wire.request import Query

META = "meta.k8s.io"
_MAX_MANAGER_CHARACTERS = 128
POLICIES = ("Foreground", "Background", "Orphan")

DryRun = Annotated[bool, "`All` or nothing"]
Ports = Annotated[tuple[int, ...], "in any number of parameters, separated by commas"]


def flag(query: Query, name: str) -> bool:
    """Return a boolean parameter as Go's conversion reads it: present and not `0` or `false`."""
    return name in query and _flag(query[name])


def _flag(values: Sequence[str]) -> bool:
    return values[0].lower() not in ("0", "false")


def _integer(values: Sequence[str]) -> int | None:
    if not values[0]:
        return None
    value = int(values[0])
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError
    return value


def _ports(values: Sequence[str]) -> tuple[int, ...]:
    texts = [part for value in values for part in value.split(",")]
    for text in texts:
        if not text.isdecimal() or not 0 < int(text) < 65536:
            raise bad_request(f'unable to parse "{text}" as a port')
    return tuple(int(text) for text in texts)


class _Codec(msgspec.Struct, frozen=True):
    """How values of one type travel: `write` gives a text per parameter, `read` gets at least one.

    `read` raises ValueError for what is no integer of 64 bits.
    """

    write: Callable[[Any], Iterable[str]]
    read: Callable[[Sequence[str]], Any]


_FLAG = _Codec(lambda value: ("true" if value else "false",), _flag)
_CODECS: dict[Any, _Codec] = {
    str: _Codec(lambda value: (value,), lambda values: values[0]),
    bool: _FLAG,
    bool | None: _FLAG,
    int | None: _Codec(lambda value: (str(value),), _integer),
    tuple[str, ...]: _Codec(tuple, tuple),
    DryRun: _Codec(lambda value: ("All",) if value else (), lambda values: "All" in values),
    Ports: _Codec(lambda value: map(str, value), _ports),
}


class _Parameter(typing.NamedTuple):
    field: str
    name: str
    default: Any
    codec: _Codec


@functools.cache
def _parameters(options: type[Options]) -> tuple[_Parameter, ...]:
    types = typing.get_type_hints(options, include_extras=True)
    return tuple(
        _Parameter(field.name, field.encode_name, field.default, _CODECS[types[field.name]])
        for field in msgspec.structs.fields(options)
    )


class Options(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters of one verb. Every field has a default, which stands for an absent parameter."""

    def encode(self) -> list[tuple[str, str]]:
        """Return the parameters of a query, in the order in which they are declared."""
        pairs: list[tuple[str, str]] = []
        for field, name, default, codec in _parameters(type(self)):
            value = getattr(self, field)
            if value != default:
                pairs += [(name, text) for text in codec.write(value)]
        return pairs

    @classmethod
    def decode(cls, query: Query) -> Self:
        """Return the options in a query.

        Raises:
            ApiError: 400 for what has not the parameter's type, 422 for values that are not allowed.
        """
        if not query:
            return cls()
        given = {}
        for field, name, _, codec in _parameters(cls):
            if name not in query:
                continue
            try:
                given[field] = codec.read(query[name])
            except ValueError:
                why = f'strconv.ParseInt: parsing "{query[name][0]}": invalid syntax'
                raise bad_request(why) from None
        return cls(**given)


# ----------------------------------------------------------------------------------------------- reading


class GetOptions(Options, frozen=True):
    """Options of a GET of one object. `resource_version` is the oldest state that will do."""

    resource_version: str = ""


class CollectionOptions(Options, frozen=True):
    """Which objects of a collection are meant, and in which state."""

    resource_version: str = ""
    resource_version_match: str = ""
    label_selector: str = ""
    field_selector: str = ""


class ListOptions(CollectionOptions, frozen=True):
    """Options of a list. `limit` objects make a page; `continue_token` asks for the page after one."""

    limit: int | None = None
    continue_token: str = msgspec.field(name="continue", default="")


class WatchOptions(CollectionOptions, frozen=True):
    """Options of a watch. `send_initial_events` is None when the client did not say."""

    timeout_seconds: int | None = None
    allow_watch_bookmarks: bool = False
    send_initial_events: bool | None = None

    def encode(self) -> list[tuple[str, str]]:
        """Return the parameters, `watch=true` among them: only it tells a watch from a list."""
        return [("watch", "true"), *super().encode()]


class TableOptions(Options, frozen=True):
    """Options of any answer in the form of a table. `include_object`: what a row carries besides its cells."""

    include_object: str = ""


class LogOptions(Options, frozen=True):
    """Options of `pods/log`. `since_time` is RFC 3339; `limit_bytes` and `tail_lines` None mean all."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: str = ""
    limit_bytes: int | None = None


# ----------------------------------------------------------------------------------------------- writing


def manager_of(user_agent: str) -> str:
    """Return who writes in a request that names nobody: the User-Agent up to its first slash, its printable part."""
    name = "".join(filter(str.isprintable, user_agent.partition("/")[0]))
    return name[:_MAX_MANAGER_CHARACTERS] or "unknown"


class WriteOptions(Options, frozen=True):
    """What create, update and patch share. An empty `field_manager` means the one of the User-Agent."""

    field_manager: str = ""
    dry_run: DryRun = False
    field_validation: str = ""

    @classmethod
    def decode(cls, query: Query) -> Self:
        """Return the options in a query. Raises `ApiError` 422 with everything that is not allowed."""
        found = _dry_run_causes(query["dryRun"]) if "dryRun" in query else []
        manager = query.get("fieldManager", ("",))[0]
        if len(manager) > _MAX_MANAGER_CHARACTERS:
            text = f"Too long: may not be more than {_MAX_MANAGER_CHARACTERS} bytes"
            found.append(Cause("FieldValueTooLong", text, "fieldManager"))
        elif not manager.isprintable():
            found.append(causes.invalid("fieldManager", manager, "should only contain printable characters"))
        validation = query.get("fieldValidation", ("",))[0]
        if validation not in _UNKNOWN_FIELDS:
            found.append(causes.unsupported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
        if found:
            raise invalid(cls.__name__, META, "", found)
        return super().decode(query)

    @property
    def unknown_fields(self) -> Literal["ignore", "warn", "strict"]:
        """What becomes of fields that the schema does not know, as `field_validation` says."""
        return _UNKNOWN_FIELDS[self.field_validation]


_UNKNOWN_FIELDS: dict[str, Literal["ignore", "warn", "strict"]] = {
    "": "warn",
    "Ignore": "ignore",
    "Warn": "warn",
    "Strict": "strict",
}


class CreateOptions(WriteOptions, frozen=True):
    """Options of a create."""


class UpdateOptions(WriteOptions, frozen=True):
    """Options of an update."""


class PatchOptions(WriteOptions, frozen=True):
    """Options of a patch. `force` takes fields from their owners; only for server-side apply."""

    force: bool | None = None


class DeleteOptions(msgspec.Struct, frozen=True):
    """How to delete; None where the caller did not say.

    These options travel in the body. The query completes them, but for the preconditions `uid` and
    `resource_version`: what the object must have, or nothing is deleted.
    """

    dry_run: bool = False
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    uid: str = ""
    resource_version: str = ""

    def encode(self) -> Object:
        """Return the options as an object for the body; empty when there is nothing to say."""
        preconditions = {"uid": self.uid, "resourceVersion": self.resource_version}
        fields = {
            "dryRun": ["All"] if self.dry_run else None,
            "gracePeriodSeconds": self.grace_period_seconds,
            "propagationPolicy": self.propagation_policy,
            "orphanDependents": self.orphan_dependents,
            "preconditions": {name: value for name, value in preconditions.items() if value} or None,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        return {"kind": "DeleteOptions", "apiVersion": "v1", **given} if given else {}

    @classmethod
    def decode(cls, query: Query, given: Mapping[str, Any]) -> DeleteOptions:
        """Return the options `given` in a body, completed from the query.

        Raises:
            ApiError: 400 for what has not the parameter's type, 422 for values that are not allowed.
        """
        asked = _DeleteParameters.decode(query)
        in_query, in_body = query.get("dryRun", ()), given.get("dryRun") or ()
        found = _dry_run_causes(in_query) + _dry_run_causes(in_body)
        policy = given.get("propagationPolicy") or asked.propagation_policy or None
        if policy is not None and policy not in POLICIES:
            found.append(causes.unsupported("propagationPolicy", policy, (*POLICIES, "nil")))
        orphan = given.get("orphanDependents")
        if orphan is None:
            orphan = asked.orphan_dependents
        if orphan is not None and policy is not None:
            why = "orphanDependents and deletionPropagation cannot be both set"
            found.append(causes.invalid("propagationPolicy", policy, why))
        if found:
            raise invalid("DeleteOptions", META, "", found)
        grace = given.get("gracePeriodSeconds")
        if grace is None:
            grace = asked.grace_period_seconds
        if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int)):
            raise bad_request("gracePeriodSeconds must be an integer")
        preconditions = section(given, "preconditions")
        return cls(
            dry_run=asked.dry_run or bool(in_body),
            grace_period_seconds=grace,
            propagation_policy=policy,
            orphan_dependents=orphan,
            uid=preconditions.get("uid") or "",
            resource_version=preconditions.get("resourceVersion") or "",
        )


class _DeleteParameters(Options, frozen=True):
    """The part of `DeleteOptions` that a query can carry."""

    dry_run: DryRun = False
    grace_period_seconds: int | None = None
    propagation_policy: str = ""
    orphan_dependents: bool | None = None


def _dry_run_causes(values: Iterable[str]) -> list[Cause]:
    """Return what is wrong with values of `dryRun`, of which only `All` is allowed."""
    sent = list(values)
    if all(value == "All" for value in sent):
        return []
    listed = ", ".join(causes.shown(value) for value in sent)
    text = f'Unsupported value: []string{{{listed}}}: supported values: "All"'
    return [Cause("FieldValueNotSupported", text, "dryRun")]


# --------------------------------------------------------------------------------------------- connecting


class ExecOptions(Options, frozen=True):
    """Options of `pods/exec`, and but for `command` of `pods/attach`. An empty container: the only one."""

    container: str = ""
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class PortForwardOptions(Options, frozen=True):
    """Options of `pods/portforward`. Clients that name ports in stream headers send none here."""

    ports: Ports = ()
