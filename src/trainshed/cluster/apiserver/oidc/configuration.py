"""An AuthenticationConfiguration: which issuers count, and what becomes of the claims in their tokens.

Source: `apiserver/pkg/apis/apiserver/types.go` and `apiserver/pkg/apis/apiserver/validation`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import msgspec

from trainshed.cluster.apiserver.tokens import ISSUER
from trainshed.kube.cel.admission import expression_type
from trainshed.kube.cel.functions import list_of
from trainshed.kube.cel.types import DYN, UNBOUNDED, Type

API_VERSIONS = ("apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1")
KIND = "AuthenticationConfiguration"
_EXTRA_KEY = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+/[a-z0-9\-._~%!$&'()*+,;=:/]+"
)
_TEXT = Type("string", UNBOUNDED)
_CLAIMS: Mapping[str, Type] = {"claims": Type("map", UNBOUNDED, DYN)}
_USER: Mapping[str, Type] = {
    "user": Type(
        "object",
        fields={
            "username": _TEXT,
            "uid": _TEXT,
            "groups": list_of(_TEXT),
            "extra": Type("map", UNBOUNDED, list_of(_TEXT)),
        },
    )
}
_EMAIL, _VERIFIED = (
    re.compile(r"\bclaims\s*\.\s*\??email\b"),
    re.compile(r"\bclaims\s*\.\s*\??email_verified\b"),
)


class Issuer(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Whose tokens count, and for which audiences."""

    url: str
    audiences: tuple[str, ...] = ()
    certificate_authority: str = ""
    audience_match_policy: str = ""
    discovery_url: str = msgspec.field(default="", name="discoveryURL")


class ClaimMapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A claim and what goes before its value, or an expression."""

    claim: str = ""
    prefix: str | None = None
    expression: str = ""


class UidMapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A claim, or an expression."""

    claim: str = ""
    expression: str = ""


class ExtraMapping(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A key of a user's extra, and the expression for its values."""

    key: str
    value_expression: str


class Mappings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What becomes of claims."""

    username: ClaimMapping = ClaimMapping()
    groups: ClaimMapping = ClaimMapping()
    uid: UidMapping = UidMapping()
    extra: tuple[ExtraMapping, ...] = ()


class ClaimRule(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A claim that has to have a value, or an expression that has to be true."""

    claim: str = ""
    required_value: str = ""
    expression: str = ""
    message: str = ""


class UserRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An expression about the user that has to be true."""

    expression: str
    message: str = ""


class Authority(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One entry of `jwt`."""

    issuer: Issuer
    claim_mappings: Mappings = Mappings()
    claim_validation_rules: tuple[ClaimRule, ...] = ()
    user_validation_rules: tuple[UserRule, ...] = ()


class Configuration(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """An AuthenticationConfiguration."""

    api_version: str
    kind: str
    jwt: tuple[Authority, ...] = ()


def read(document: object) -> Configuration:
    """Return the configuration in a decoded file. ValueError, with one sentence, when it is none that is served."""
    try:
        made = msgspec.convert(document, Configuration)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    if made.api_version not in API_VERSIONS or made.kind != KIND:
        raise ValueError(f"it is no {API_VERSIONS[0]} {KIND}, but {made.api_version} {made.kind}")
    seen: set[str] = set()
    for index, one in enumerate(made.jwt):
        for problem in (*_issuer(one.issuer), *_mappings(one), *_rules(one)):
            raise ValueError(f"jwt[{index}].{problem}")
        if one.issuer.url in seen:
            raise ValueError(f'jwt[{index}].issuer.url: Duplicate value: "{one.issuer.url}"')
        seen.add(one.issuer.url)
    return made


def _issuer(issuer: Issuer) -> Iterator[str]:
    for field, url in (("url", issuer.url), ("discoveryURL", issuer.discovery_url or issuer.url)):
        try:
            parts = urlsplit(url)
            _ = parts.port
        except ValueError as error:
            yield f"issuer.{field}: {error}"
            continue
        if parts.scheme != "https" or not parts.hostname:
            yield f"issuer.{field}: URL scheme must be https, and there must be a host"
        if parts.username is not None or parts.query or parts.fragment:
            yield f"issuer.{field}: URL must not contain a user, a query or a fragment"
    if issuer.discovery_url == issuer.url:
        yield "issuer.discoveryURL: discoveryURL must be different from URL"
    if issuer.url == ISSUER:
        yield "issuer.url: URL must not overlap with disallowed issuers: it is that of the cluster's own tokens"
    if not issuer.audiences:
        yield "issuer.audiences: Required value: at least one issuer.audiences is required"
    if len(issuer.audiences) > 1 and issuer.audience_match_policy != "MatchAny":
        yield "issuer.audienceMatchPolicy: audienceMatchPolicy must be MatchAny for multiple audiences"


def _mappings(one: Authority) -> Iterator[str]:
    mappings = one.claim_mappings
    if not mappings.username.claim and not mappings.username.expression:
        yield "claimMappings.username: Required value: claim or expression is required"
    for field, mapping in (("username", mappings.username), ("groups", mappings.groups)):
        at = f"claimMappings.{field}"
        yield from _either(at, mapping.claim, mapping.expression)
        if mapping.claim and mapping.prefix is None:
            why = 'prefix is required when claim is set. It can be set to an empty string ("")'
            yield f"{at}.prefix: Required value: {why}"
        if mapping.expression and mapping.prefix is not None:
            yield f"{at}.prefix: prefix can't be set when expression is set"
    yield from _either("claimMappings.uid", mappings.uid.claim, mappings.uid.expression)
    for field in ("username", "groups", "uid"):
        expression = getattr(mappings, field).expression
        if expression:
            yield from _expression(f"claimMappings.{field}.expression", expression, _CLAIMS, ())
    keys = [each.key for each in mappings.extra]
    for index, each in enumerate(mappings.extra):
        at = f"claimMappings.extra[{index}]"
        if not _EXTRA_KEY.fullmatch(each.key):
            yield f'{at}.key: must be a domain-prefixed path (such as "acme.io/foo") in lower case'
        if each.key in keys[:index]:
            yield f'{at}.key: Duplicate value: "{each.key}"'
        yield from _expression(f"{at}.valueExpression", each.value_expression, _CLAIMS, ())
    checks = [mappings.username.expression, *(each.value_expression for each in mappings.extra)]
    checks += [rule.expression for rule in one.claim_validation_rules]
    if _EMAIL.search(mappings.username.expression) and not any(map(_VERIFIED.search, checks)):
        yield (
            "claimMappings.username.expression: claims.email_verified must be used in "
            "claimMappings.username.expression or claimMappings.extra[*].valueExpression or "
            "claimValidationRules[*].expression when claims.email is used "
            "in claimMappings.username.expression"
        )


def _either(at: str, claim: str, expression: str) -> Iterator[str]:
    if claim and expression:
        yield f"{at}: claim and expression can't both be set"


def _rules(one: Authority) -> Iterator[str]:
    for index, rule in enumerate(one.claim_validation_rules):
        at = f"claimValidationRules[{index}]"
        if not rule.claim and not rule.expression:
            yield f"{at}: Required value: claim or expression is required"
        yield from _either(at, rule.claim, rule.expression)
        if rule.expression:
            yield from _expression(f"{at}.expression", rule.expression, _CLAIMS, ("bool",))
    for index, check in enumerate(one.user_validation_rules):
        yield from _expression(f"userValidationRules[{index}].expression", check.expression, _USER, ("bool",))


def _expression(at: str, expression: str, sees: Mapping[str, Type], kinds: tuple[str, ...]) -> Iterator[str]:
    if not expression.strip():
        yield f"{at}: Required value: expression is required"
        return
    for cause in expression_type(expression, at, sees, kinds)[0]:
        yield f"{at}: {cause.message.partition(chr(10))[0]}"
