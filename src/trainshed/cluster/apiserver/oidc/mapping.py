"""What the claims of a token that counts make of its holder. Pure.

Source: `apiserver/plugin/pkg/authenticator/token/oidc`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainshed.cluster.apiserver.access import AUTHENTICATED, User
from trainshed.cluster.apiserver.oidc.configuration import Authority, ClaimMapping
from trainshed.cluster.apiserver.tokens import InvalidToken
from trainshed.kube.cel.program import run
from trainshed.kube.meta.objects import Object

_CREDENTIAL = "authentication.kubernetes.io/credential-id"


def user_of(authority: Authority, claims: Object) -> User:
    """Return the user whom claims describe. Raises InvalidToken where a rule is broken, or a claim is missing."""
    for rule in authority.claim_validation_rules:
        if rule.expression:
            if _evaluated(rule.expression, claims=claims) is not True:
                raise InvalidToken(f"validation expression '{rule.expression}' failed: {rule.message}")
        elif rule.claim not in claims:
            raise InvalidToken(f"required claim {rule.claim} not present in ID token")
        elif claims[rule.claim] != rule.required_value:
            values = f"Got = {claims[rule.claim]}, want = {rule.required_value}"
            raise InvalidToken(f"required claim {rule.claim} value does not match. {values}")
    mappings = authority.claim_mappings
    groups = _groups(mappings.groups, claims)
    extra = {
        each.key: _texts(_evaluated(each.value_expression, claims=claims), each.key)
        for each in mappings.extra
    }
    extra = {key: values for key, values in extra.items() if values}
    if isinstance(claims.get("jti"), str) and claims["jti"]:
        extra[_CREDENTIAL] = (f"JTI={claims['jti']}",)
    user = User(_username(mappings.username, claims), groups, _uid(authority, claims), extra)
    _check_user(authority, user)
    return User(user.username, (*user.groups, AUTHENTICATED), user.uid, user.extra)


def _evaluated(expression: str, **variables: Any) -> Any:
    try:
        return run(expression, variables)
    except ValueError as error:
        raise InvalidToken(f"error evaluating '{expression}': {error}") from error


def _username(mapping: ClaimMapping, claims: Object) -> str:
    if mapping.expression:
        name = _evaluated(mapping.expression, claims=claims)
        if not isinstance(name, str) or not name:
            raise InvalidToken(
                "claimMappings.username.expression did not evaluate to a username that is not empty"
            )
        return name
    name = claims.get(mapping.claim)
    if not isinstance(name, str) or not name:
        raise InvalidToken(f"parse username claims {mapping.claim}: claim not present, or no text")
    if mapping.claim == "email" and claims.get("email_verified", True) is not True:
        raise InvalidToken("email not verified")
    return f"{mapping.prefix or ''}{name}"


def _groups(mapping: ClaimMapping, claims: Object) -> tuple[str, ...]:
    if mapping.expression:
        return _texts(_evaluated(mapping.expression, claims=claims), "groups")
    found = claims.get(mapping.claim) if mapping.claim else None
    return tuple(f"{mapping.prefix or ''}{one}" for one in _texts(found, mapping.claim))


def _texts(value: Any, what: str) -> tuple[str, ...]:
    """Return one text or a list of them, without empty ones."""
    listed = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise InvalidToken(f"{what}: no list of texts")
    return tuple(one for one in listed if one)


def _uid(authority: Authority, claims: Object) -> str:
    mapping = authority.claim_mappings.uid
    if not mapping.claim and not mapping.expression:
        return ""
    value = _evaluated(mapping.expression, claims=claims) if mapping.expression else claims.get(mapping.claim)
    if not isinstance(value, str):
        raise InvalidToken("uid: claim not present, or no text")
    return value


def _check_user(authority: Authority, user: User) -> None:
    if user.username.startswith("system:"):
        # As with certificates: nobody outside of the cluster may speak as one of its parts.
        raise InvalidToken("username must not start with 'system:'")
    seen: Mapping[str, Any] = {
        "username": user.username,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    for rule in authority.user_validation_rules:
        if _evaluated(rule.expression, user=seen) is not True:
            raise InvalidToken(
                f"error evaluating user info validation rule: {rule.message or rule.expression}"
            )
