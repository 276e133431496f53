"""Which user a request comes from: an in-process caller, a bearer token, or nobody.

In-process callers are named by the transport in the ASGI scope, where no network peer can write.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence

from trainshed.cluster.apiserver.identity import AUTHENTICATED, MASTERS, NOBODY, User, service_account
from trainshed.cluster.apiserver.tokens import DEFAULT_AUDIENCE, InvalidToken, TokenIssuer
from trainshed.cluster.store import Store
from trainshed.kube.meta.errors import unauthorized
from trainshed.kube.wire.asgi import Scope

SCOPE_USER = "trainshed.user"
ADMIN = User("trainshed-admin", (MASTERS, AUTHENTICATED))


class Authenticator:
    """Knows the static tokens and the key of ServiceAccount tokens.

    `tokens` maps a static token to its user. Tokens are compared by digest, in constant time.
    """

    def __init__(self, store: Store, issuer: TokenIssuer, tokens: Mapping[str, User]) -> None:
        self._store = store
        self._issuer = issuer
        self._static = {hashlib.sha256(token.encode()).digest(): user for token, user in tokens.items()}

    @property
    def issuer(self) -> TokenIssuer:
        """The signer of ServiceAccount tokens."""
        return self._issuer

    def authenticate(self, scope: Scope, authorization: str, now: float) -> User:
        """Return the user of a request. Raises `ApiError` 401 for credentials that nobody issued."""
        named = (scope.get("extensions") or {}).get(SCOPE_USER)
        if named is not None:
            return User(named["username"], (*named["groups"], AUTHENTICATED))
        if not authorization:
            return NOBODY
        kind, _, token = authorization.partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            raise unauthorized()
        try:
            return self.identify(token.strip(), now)
        except InvalidToken as error:
            raise unauthorized() from error

    def identify(self, token: str, now: float, audiences: Sequence[str] = (DEFAULT_AUDIENCE,)) -> User:
        """Return the user that a token stands for.

        Raises:
            InvalidToken: unknown, expired, for other audiences, or bound to something that is gone.
        """
        digest = hashlib.sha256(token.encode()).digest()
        for known, user in self._static.items():
            if hmac.compare_digest(known, digest):
                return user
        claims = self._issuer.verify(token, audiences=audiences, now=now)
        bound = claims.get("kubernetes.io") or {}
        namespace = str(bound.get("namespace", ""))
        account = bound.get("serviceaccount") or {}
        if not self._exists("serviceaccounts", namespace, account):
            raise InvalidToken("the service account is gone")
        extra = {"authentication.kubernetes.io/credential-id": (f"JTI={claims.get('jti', '')}",)}
        pod = bound.get("pod")
        if pod:
            if not self._exists("pods", namespace, pod):
                raise InvalidToken("the pod is gone")
            extra["authentication.kubernetes.io/pod-name"] = (pod["name"],)
            extra["authentication.kubernetes.io/pod-uid"] = (pod["uid"],)
        return service_account(namespace, account["name"], account["uid"], extra)

    def _exists(self, plural: str, namespace: str, reference: Mapping[str, str]) -> bool:
        stored = self._store.get(f"/core/{plural}/{namespace}/{reference.get('name', '')}")
        return stored is not None and stored.obj["metadata"].get("uid") == reference.get("uid")
