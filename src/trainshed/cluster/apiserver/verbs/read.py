"""GET of one object and of a collection, in pages when asked."""

from __future__ import annotations

import base64
import binascii

import msgspec

from trainshed.cluster.apiserver import rendering
from trainshed.cluster.apiserver.conversion import viewed, viewed_one
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.apiserver.http import Answer
from trainshed.cluster.apiserver.selection import Selection, selection
from trainshed.cluster.store import Compacted, FutureRevision, Stored, keys
from trainshed.kube.meta import causes
from trainshed.kube.meta.base64text import illegal_byte
from trainshed.kube.meta.errors import ApiError, Cause, bad_request, expired, invalid
from trainshed.kube.meta.objects import Object
from trainshed.kube.wire.options import GetOptions, ListOptions

TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 - names a format
_MATCHES = ("", "Exact", "NotOlderThan")


class Continue(msgspec.Struct):
    """Where the next page starts: the first key after `start`, as of revision `rv` (-1: as of now)."""

    v: str
    rv: int
    start: str


async def get(core: Core, call: Call) -> Answer:
    """Return one object. Raises `ApiError` 404."""
    wanted = revision(GetOptions.decode(call.request.query).resource_version)
    if wanted is not None:
        check_reached(core, wanted)
    stored = core.store.get(call.kind.key(call.route.namespace, call.route.name))
    if stored is None:
        raise call.kind.missing(call.route.name)
    return rendering.one(call, await viewed_one(core, call.kind, stored, fresh=True))


async def collection(core: Core, call: Call) -> Answer:
    """Return the objects of a collection: all, or a page of `limit`."""
    options = ListOptions.decode(call.request.query)
    if "sendInitialEvents" in call.request.query:
        found = _wrong_match(options)
        found.append(causes.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
        raise invalid("ListOptions", "meta.k8s.io", "", found)
    chosen = selection(call.kind, options)
    warn_of_damage(core, call)
    if options.continue_token:
        if options.resource_version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        if options.resource_version_match:
            _refuse_match(options)
        items, at = _state(core, call, _decode(options.continue_token))
    else:
        items, at = await wanted_state(core, call, chosen, options)
    if not chosen.everything:
        items = await chosen.of(await viewed(core, call.kind, items))
    items, metadata = page(items, options, at, whole=chosen.everything)
    return await rendering.many(call, await viewed(core, call.kind, items), metadata)


def page(items: list[Stored], options: ListOptions, at: int, *, whole: bool) -> tuple[list[Stored], Object]:
    """Return as many items as the client wants, and the metadata of the list; what is left is counted of a `whole`."""
    metadata: Object = {"resourceVersion": str(at)}
    limit = max(options.limit or 0, 0)
    if not limit or len(items) <= limit:
        return items, metadata
    metadata["continue"] = _encode(Continue(TOKEN_VERSION, at, items[limit - 1].key))
    if whole:
        metadata["remainingItemCount"] = len(items) - limit
    return items[:limit], metadata


def _refuse_match(options: ListOptions) -> None:
    """Raise `ApiError` 422: a continue token says itself which state is meant."""
    found = [
        causes.forbidden(
            "resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"
        )
    ]
    if not options.resource_version:
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        found.insert(0, causes.forbidden("resourceVersionMatch", text))
    raise invalid("ListOptions", "meta.k8s.io", "", found)


def warn_of_damage(core: Core, call: Call) -> None:
    """Say what the disk has damaged, so that a list that leaves it out is not taken for the whole."""
    for key in sorted(core.store.damaged(call.kind.prefix(call.route.namespace))):
        place = keys.place(key)
        name = f"{place.namespace}/{place.name}" if place.namespace else place.name
        call.request.warn(
            f"{call.kind.resource.plural} {name!r} is damaged on the disk and left out of this list"
        )


async def wanted_state(
    core: Core, call: Call, chosen: Selection, options: ListOptions
) -> tuple[list[Stored], int]:
    """Return the collection in the state that resourceVersion and resourceVersionMatch ask for."""
    match, wanted = options.resource_version_match, revision(options.resource_version)
    found = _wrong_match(options)
    if found:
        raise invalid("ListOptions", "meta.k8s.io", "", found)
    if wanted:
        check_reached(core, wanted)
    if wanted and (match == "Exact" or (not match and (options.limit or 0) > 0)):
        try:
            items = core.store.snapshot(call.kind.prefix(call.route.namespace), wanted)
        except Compacted:
            raise expired("The resourceVersion for the provided list is too old.") from None
        return items, wanted
    return await _latest(core, call, chosen)


def _wrong_match(options: ListOptions) -> list[Cause]:
    """Return what is wrong with the resourceVersionMatch of a list, if there is one."""
    match, wanted = options.resource_version_match, revision(options.resource_version)
    if not match:
        return []
    if match not in _MATCHES:
        return [causes.unsupported("resourceVersionMatch", match, (*_MATCHES[1:], ""))]
    if wanted is None:
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif match == "Exact" and wanted == 0:
        text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    else:
        return []
    return [causes.forbidden("resourceVersionMatch", text)]


async def _latest(core: Core, call: Call, chosen: Selection) -> tuple[list[Stored], int]:
    namespace, name = call.route.namespace, chosen.name
    if name is not None and (namespace or not call.kind.resource.namespaced):
        stored = core.store.get(call.kind.key(namespace, name))
        return [stored] if stored else [], core.store.revision
    return await core.store.labelled(call.kind.prefix(namespace), chosen.values)


def _state(core: Core, call: Call, token: Continue) -> tuple[list[Stored], int]:
    """Return what follows in the snapshot that a continue token names."""
    prefix, at, after = call.kind.prefix(call.route.namespace), token.rv, token.start
    if at < 0:
        items, at = core.store.list(prefix)
    else:
        try:
            items = core.store.snapshot(prefix, at)
        except Compacted:
            error = expired(
                "The provided continue parameter is too old to display a consistent list result. You can start"
                " a new list without the continue parameter, or use the continue token in this response to"
                " retrieve the remainder of the results. Continuing with the provided token results in an"
                " inconsistent list - objects that were created, modified, or deleted between the time the"
                " first chunk was returned and now may show up in the list."
            )
            raise InconsistentContinue(error, _encode(Continue(TOKEN_VERSION, -1, after))) from None
        except FutureRevision:
            raise bad_request("invalid continue token: revision is in the future") from None
    return [stored for stored in items if stored.key > after], at


class InconsistentContinue(ApiError):
    """410 with a token that goes on from here, in the present."""

    def __init__(self, error: ApiError, token: str) -> None:
        super().__init__(error.code, error.reason, error.message)
        self.token = token

    def status(self) -> Object:
        return {**super().status(), "metadata": {"continue": self.token}}


def revision(text: str) -> int | None:
    """Return the resourceVersion of a query, None when absent. Raises `ApiError` 400."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        why = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f"invalid resource version: resourceVersion: {why}")
    return int(text)


def check_reached(core: Core, wanted: int) -> None:
    """Raise `ApiError` 504 for a resourceVersion that was not handed out yet."""
    if wanted > core.store.revision:
        raise ApiError(
            504,
            "Timeout",
            f"Timeout: Too large resource version: {wanted}, current: {core.store.revision}",
            causes=[Cause("ResourceVersionTooLarge", "Too large resource version")],
            retry_after_seconds=1,
        )


def _encode(token: Continue) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def _decode(text: str) -> Continue:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        token = msgspec.json.decode(raw, type=Continue)
    except binascii.Error:
        why = f"illegal base64 data at input byte {illegal_byte(text, url=True)}"
        raise bad_request(f"invalid continue token: continue key is not valid: {why}") from None
    except (ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"invalid continue token: {error}") from None
    if token.v != TOKEN_VERSION:
        why = f"server does not recognize this encoded version {token.v}"
        raise bad_request(f"invalid continue token: continue key is not valid: {why}")
    if not token.start.startswith("/"):
        raise bad_request(f"invalid continue token: continue key is not valid: {token.start}")
    return token
