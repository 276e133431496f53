"""What every handler needs, in one place: the store, the kinds, who decides, the clock, chance."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from trainshed.cluster.apiserver.access import Authenticator, Authorizer, User
from trainshed.cluster.apiserver.charges import Charges
from trainshed.cluster.apiserver.http import Incoming
from trainshed.cluster.apiserver.kinds import Kinds, ServedKind
from trainshed.cluster.backend import Nodes
from trainshed.cluster.store import Store
from trainshed.kube.meta.errors import ApiError, Cause
from trainshed.kube.meta.names import SUFFIX_ALPHABET, SUFFIX_LENGTH
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.times import format_time
from trainshed.kube.wire.route import Route


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """What an admission check has to say: what is wrong, what the client is told in any case, the refusal if any."""

    causes: Sequence[Cause] = ()
    warnings: Sequence[str] = ()
    refusal: ApiError | None = None


AdmissionCheck: TypeAlias = Callable[[Object, Object | None, str], Admission]
"""(object, object before an update or None, "CREATE", "UPDATE" or "DELETE") → the answer.

A deletion is asked about when it has begun, so that of its answer only the warnings matter.
"""


class Reservation(msgspec.Struct, frozen=True):
    """For which Service, by namespace and name, something is held, and when its write must be over."""

    owner: tuple[str, str]
    until: float


class Core:
    """The parts of the server. `clock` returns seconds since the epoch."""

    def __init__(
        self,
        store: Store,
        kinds: Kinds,
        *,
        authenticator: Authenticator,
        authorizer: Authorizer,
        nodes: Nodes | None,
        admission: Mapping[str, AdmissionCheck],
        clock: Callable[[], float],
    ) -> None:
        self.store = store
        self.kinds = kinds
        self.authenticator = authenticator
        self.authorizer = authorizer
        self.nodes = nodes
        self.admission = admission
        self.clock = clock
        self.charges = Charges()
        self.reserved: dict[str, Reservation] = {}
        """Cluster IPs and node ports of Services whose write is on its way."""

    def name_suffix(self) -> str:
        """Return the random part of a generated name. Not a secret."""
        return "".join(random.choices(SUFFIX_ALPHABET, k=SUFFIX_LENGTH))  # noqa: S311


class Call(msgspec.Struct, frozen=True):
    """An authorised request for a resource."""

    request: Incoming
    route: Route
    user: User
    kind: ServedKind
    now: float

    @property
    def timestamp(self) -> str:
        """The time of the request as objects carry it."""
        return format_time(self.now)
