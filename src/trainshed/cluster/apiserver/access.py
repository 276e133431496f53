"""Who makes a request, and whether they may: users, credentials, and role-based access control over stored roles."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from trainshed.cluster.apiserver.tokens import (
    DEFAULT_AUDIENCE,
    LEGACY,
    LEGACY_ISSUER,
    InvalidToken,
    TokenIssuer,
)
from trainshed.cluster.store import Compacted, Store, keys
from trainshed.kube.meta.errors import unauthorized
from trainshed.kube.meta.objects import Object, is_terminating, section
from trainshed.kube.meta.resources import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    NODES,
    PODS,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    SERVICEACCOUNTS,
    Resource,
)
from trainshed.kube.policy.attributes import Attributes
from trainshed.kube.served.rbac import MASTERS, Policy
from trainshed.kube.wire.asgi import CLIENT_CERTIFICATE, Scope

if TYPE_CHECKING:
    from trainshed.cluster.apiserver.oidc.providers import Providers
    from trainshed.cluster.signing import Holder

ANONYMOUS = "system:anonymous"
UNAUTHENTICATED = "system:unauthenticated"
AUTHENTICATED = "system:authenticated"

SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


class User(msgspec.Struct, frozen=True):
    """An authenticated user, as TokenReview and SelfSubjectReview show it."""

    username: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}

    def as_object(self) -> dict[str, object]:
        """Return the wire form `UserInfo`."""
        out: dict[str, object] = {"username": self.username}
        if self.uid:
            out["uid"] = self.uid
        out["groups"] = list(self.groups)
        if self.extra:
            out["extra"] = {key: list(values) for key, values in self.extra.items()}
        return out


NOBODY = User(ANONYMOUS, (UNAUTHENTICATED,))


def service_account(namespace: str, name: str, uid: str, extra: Mapping[str, tuple[str, ...]]) -> User:
    """Return the user that a ServiceAccount token stands for."""
    return User(
        f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}",
        ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED),
        uid,
        extra,
    )


SCOPE_USER = "trainshed.user"
"""Where an in-process transport names its user in the ASGI scope; no network peer can write there."""
_KNOWN_CERTIFICATES = 256
_RBAC = keys.within(ROLES.group)
AGGREGATOR = User("system:kube-aggregator", (MASTERS,))
"""As whom this server asks others what they serve."""
ADMIN = User("trainshed-admin", (MASTERS, AUTHENTICATED))


class Authenticator:
    """Knows the static tokens and the key of ServiceAccount tokens.

    `tokens` maps a static token to its user. Tokens are compared by digest, in constant time.
    """

    def __init__(self, store: Store, issuer: TokenIssuer, tokens: Mapping[str, User]) -> None:
        self._store = store
        self._issuer = issuer
        self._holders: OrderedDict[bytes, Holder] = OrderedDict()
        self.providers: Providers | None = None
        """Who else vouches for users, if anybody."""
        self._static = {hashlib.sha256(token.encode()).digest(): user for token, user in tokens.items()}

    @property
    def issuer(self) -> TokenIssuer:
        """The signer of ServiceAccount tokens."""
        return self._issuer

    async def prepare(self, token: str) -> None:
        """Have what is needed to look at a token that another issuer may have signed."""
        if self.providers is not None and (found := self.providers.of(token)) is not None:
            provider, read = found
            await provider.prepare(read)

    def authenticate(self, scope: Scope, authorization: str, now: float) -> User:
        """Return the user of a request. Raises `ApiError` 401 for credentials that nobody issued."""
        named = section(scope, "extensions").get(SCOPE_USER)
        if named is not None:
            return User(named["username"], (*named["groups"], AUTHENTICATED))
        certificate = scope.get(CLIENT_CERTIFICATE)
        if certificate and (shown := self._holder(certificate, now)) is not None:
            return shown
        if not authorization:
            return NOBODY
        kind, _, token = authorization.partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            raise unauthorized()
        try:
            return self.identify(token.strip(), now)
        except InvalidToken as error:
            raise unauthorized() from error

    def _holder(self, certificate: bytes, now: float) -> User | None:
        """Return the user that a verified certificate shows, None when it names nobody. Raises `ApiError` 401.

        A connection may outlive its certificate, which is why the time is looked at again.
        """
        from trainshed.cluster.signing import holder

        found = self._holders.get(certificate)
        if found is None:
            try:
                found = holder(certificate)
            except ValueError as error:
                raise unauthorized() from error
            self._holders[certificate] = found
            if len(self._holders) > _KNOWN_CERTIFICATES:
                self._holders.popitem(last=False)
        if not found.begins <= now <= found.ends:
            raise unauthorized()
        if not found.common_name:
            return None
        extra = {"authentication.kubernetes.io/credential-id": (f"X509SHA256={found.digest}",)}
        return User(found.common_name, (*found.organizations, AUTHENTICATED), "", extra)

    def identify(self, token: str, now: float, audiences: Sequence[str] = (DEFAULT_AUDIENCE,)) -> User:
        """Return the user that a token stands for.

        Raises:
            InvalidToken: unknown, expired, for other audiences, or bound to something that is gone.
        """
        digest = hashlib.sha256(token.encode()).digest()
        for known, user in self._static.items():
            if hmac.compare_digest(known, digest):
                return user
        if self.providers is not None and (found := self.providers.of(token)) is not None:
            provider, read = found
            return provider.identify(read, now)
        claims = self._issuer.verify(token, audiences=audiences, now=now)
        if claims["iss"] == LEGACY_ISSUER:
            return self._in_secret(claims, token)
        bound = section(claims, "kubernetes.io")
        namespace = str(bound.get("namespace", ""))
        account = section(bound, "serviceaccount")
        if not self._exists(SERVICEACCOUNTS, namespace, account):
            raise InvalidToken("the service account is gone")
        extra = {"authentication.kubernetes.io/credential-id": (f"JTI={claims.get('jti', '')}",)}
        for part, resource in (("pod", PODS), ("node", NODES), ("secret", SECRETS)):
            its = bound.get(part)
            if not its:
                continue
            of_its_pod = part == "node" and "pod" in bound
            within = namespace if resource.namespaced else None
            if not of_its_pod and not self._exists(resource, within, its):
                raise InvalidToken(f"the {part} is gone")
            if part != "secret":
                extra[f"authentication.kubernetes.io/{part}-name"] = (its["name"],)
                extra[f"authentication.kubernetes.io/{part}-uid"] = (its.get("uid", ""),)
        return service_account(namespace, account["name"], account["uid"], extra)

    def audiences(self, token: str, now: float, wanted: Sequence[str]) -> list[str]:
        """Return for which of the `wanted` audiences a token is that `identify` has taken."""
        try:
            held = set(self._issuer.verify(token, audiences=wanted, now=now)["aud"])
        except InvalidToken:  # not of ours: it names none
            return list(wanted)
        return [audience for audience in wanted if audience in held]

    def _in_secret(self, claims: Mapping[str, Any], token: str) -> User:
        namespace, name, uid, secret = (
            str(claims.get(LEGACY + key, ""))
            for key in ("namespace", "service-account.name", "service-account.uid", "secret.name")
        )
        stored = self._store.get(keys.of(SECRETS, namespace, secret))
        held = (
            ""
            if stored is None or is_terminating(stored.obj)
            else section(stored.obj, "data").get("token", "")
        )
        if not hmac.compare_digest(base64.b64encode(token.encode()), str(held).encode()):
            raise InvalidToken("the secret does not hold this token")
        if not self._exists(SERVICEACCOUNTS, namespace, {"name": name, "uid": uid}):
            raise InvalidToken("the service account is gone")
        return service_account(namespace, name, uid, {})

    def _exists(self, resource: Resource, namespace: str | None, reference: Mapping[str, str]) -> bool:
        stored = self._store.get(keys.of(resource, namespace, reference.get("name", "")))
        return stored is not None and stored.obj["metadata"].get("uid") == reference.get("uid")


class Authorizer(Protocol):
    """Decides. Its methods are called once or more per request and must not block."""

    def authorize(self, attributes: Attributes) -> tuple[bool, str]:
        """Return whether the request is allowed, and why."""
        ...

    def rules(self, user: User, namespace: str) -> Object:
        """Return the `status` of a SelfSubjectRulesReview."""
        ...

    def role_rules(self, namespace: str, name: str) -> list[Any] | None:
        """Return the rules of a Role, or with an empty namespace of a ClusterRole; None when there is none."""
        ...


class RbacAuthorizer:
    """Evaluates Roles and bindings as they are in the store now.

    The index over them is rebuilt when one of them changed since the last question, which a watch tells.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watch = store.watch(_RBAC, store.revision)
        self._policy: Policy | None = None

    def authorize(self, attributes: Attributes) -> tuple[bool, str]:
        return self._current().authorize(attributes)

    def rules(self, user: User, namespace: str) -> Object:
        return self._current().rules_for(user.username, user.groups, namespace)

    def role_rules(self, namespace: str, name: str) -> list[Any] | None:
        return self._current().role_rules(namespace, name)

    def _current(self) -> Policy:
        try:
            changed = bool(self._watch.drain())
        except Compacted:
            self._watch = self._store.watch(_RBAC, self._store.revision)
            changed = True
        if self._policy is None or changed:
            self._policy = Policy(
                self._objects(ROLES),
                self._objects(ROLEBINDINGS),
                self._objects(CLUSTERROLES),
                self._objects(CLUSTERROLEBINDINGS),
            )
        return self._policy

    def _objects(self, resource: Resource) -> list[Object]:
        return [stored.obj for stored in self._store.list(keys.under(resource))[0]]
