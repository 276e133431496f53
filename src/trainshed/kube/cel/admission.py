"""Expressions of admission: which variables they see, and what is wrong with them before they run.

Source: "Validating Admission Policy" and "Match conditions" in the Kubernetes documentation; texts are those of
`apiserver/pkg/admission/plugin/cel`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainshed.kube.cel.check import check
from trainshed.kube.cel.constants import NotInstantiable
from trainshed.kube.cel.functions import AUTHORIZER, BOOL, INT, list_of
from trainshed.kube.cel.types import DYN, UNBOUNDED, Type
from trainshed.kube.cel.wording import syntax_error
from trainshed.kube.meta import causes
from trainshed.kube.meta.errors import Cause

_TEXT = Type("string", UNBOUNDED)
_TEXTS = list_of(_TEXT)


def _object(**fields: Type) -> Type:
    return Type("object", fields=fields)


_KIND = _object(group=_TEXT, version=_TEXT, kind=_TEXT)
_RESOURCE = _object(group=_TEXT, version=_TEXT, resource=_TEXT)
_USER = _object(username=_TEXT, uid=_TEXT, groups=_TEXTS, extra=Type("map", UNBOUNDED, _TEXTS))
_REQUEST = _object(
    kind=_KIND,
    resource=_RESOURCE,
    subResource=_TEXT,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=_TEXT,
    name=_TEXT,
    namespace=_TEXT,
    operation=_TEXT,
    userInfo=_USER,
    dryRun=BOOL,
    options=DYN,
)
_MAP = Type("map", UNBOUNDED, _TEXT)
_NAMESPACE = _object(
    metadata=_object(
        name=_TEXT,
        generateName=_TEXT,
        namespace=_TEXT,
        labels=_MAP,
        annotations=_MAP,
        UID=_TEXT,
        creationTimestamp=DYN,
        deletionGracePeriodSeconds=INT,
        deletionTimestamp=DYN,
        generation=INT,
        resourceVersion=_TEXT,
        finalizers=_TEXTS,
    ),
    spec=_object(finalizers=_TEXTS),
    status=_object(phase=_TEXT),
)
CONDITION: Mapping[str, Type] = {
    "object": DYN,
    "oldObject": DYN,
    "request": _REQUEST,
    "namespaceObject": _NAMESPACE,
    "authorizer": AUTHORIZER,
}
"""What a match condition sees."""


def expression_type(
    expression: str, at: str, variables: Mapping[str, Type], wanted: tuple[str, ...] = ()
) -> tuple[list[Cause], Type]:
    """Return what is wrong with an expression, and its type, which is `dyn` where something is."""
    try:
        found = check(expression, variables).type
    except SyntaxError:
        return [causes.invalid(at, expression, syntax_error(expression))], DYN
    except NotInstantiable as error:
        return [Cause("InternalError", f"Internal error: {error}", at)], DYN
    except ValueError as error:
        return [causes.invalid(at, expression, f"compilation failed: {error}")], DYN
    except RecursionError:
        return [], DYN
    if wanted and found.kind not in wanted:
        kinds = wanted[0] if len(wanted) == 1 else f"one of [{' '.join(wanted)}]"
        return [causes.invalid(at, expression, f"must evaluate to {kinds} but got {found}")], found
    return [], found


def condition_causes(
    expression: object, at: str, variables: Mapping[str, Type] = CONDITION
) -> Iterator[Cause]:
    """Yield what is wrong with an expression that has to be true or false."""
    text = str(expression or "")
    if not text.strip():
        yield causes.required(at, "expression is not specified")
        return
    yield from expression_type(text, at, variables, ("bool",))[0]
