"""A sequence about the rules in CEL of custom resources: what refuses an object, and what a definition."""

from __future__ import annotations

from typing import Any

from tests.conformance.recorded.steps import (
    CRDS,
    Step,
    crd,
    delete,
    merge,
    post,
    put,
    rules,
)
from trainshed.kube.meta.objects import Object

GIZMOS = "/apis/{ns}.example.com/v1/namespaces/{ns}/gizmos"


def gizmo(name: str, **spec: Any) -> Object:
    return {"apiVersion": "{ns}.example.com/v1", "kind": "Gizmo", "metadata": {"name": name}, "spec": spec}


TEXT = {"type": "string", "maxLength": 20}
TYPED = crd(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "n": {
                        "type": "integer",
                        "x-kubernetes-validations": [
                            {
                                "rule": "self >= 0",
                                "messageExpression": "self == -1 ? 'minus one' : 'n is low'",
                                "reason": "FieldValueForbidden",
                            },
                            {"rule": "self >= oldSelf", "message": "n cannot shrink"},
                        ],
                    },
                    "first": {
                        **TEXT,
                        "x-kubernetes-validations": [
                            {
                                "rule": "!oldSelf.hasValue() || self == oldSelf.value()",
                                "optionalOldSelf": True,
                            }
                        ],
                    },
                    "tags": {
                        "type": "array",
                        "maxItems": 5,
                        "x-kubernetes-list-type": "set",
                        "items": TEXT,
                        "x-kubernetes-validations": [
                            {"rule": "self == ['a', 'b'] || !('x' in self)", "message": "no x but in ab"}
                        ],
                    },
                    "parts": {
                        "type": "array",
                        "maxItems": 5,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {"name": TEXT, "size": {"type": "integer"}},
                            "x-kubernetes-validations": [
                                {
                                    "rule": "!has(oldSelf.size) || self.size >= oldSelf.size",
                                    "message": "part shrinks",
                                    "fieldPath": ".size",
                                }
                            ],
                        },
                    },
                    "limits": {
                        "type": "object",
                        "maxProperties": 4,
                        "additionalProperties": {
                            "type": "integer",
                            "x-kubernetes-validations": [
                                {"rule": "self < 10", "reason": "FieldValueDuplicate"}
                            ],
                        },
                    },
                    "port": {
                        "x-kubernetes-int-or-string": True,
                        "x-kubernetes-validations": [
                            {"rule": "self > 3 || type(self) == string", "message": "port"}
                        ],
                    },
                    "when": {
                        "type": "string",
                        "format": "date-time",
                        "x-kubernetes-validations": [{"rule": "self > timestamp('2020-01-01T00:00:00Z')"}],
                    },
                    "wait": {
                        "type": "string",
                        "format": "duration",
                        "x-kubernetes-validations": [
                            {
                                "rule": "self < duration('1h')",
                                "messageExpression": "self > duration('2h') ? 'far too long' : 'too long'",
                            }
                        ],
                    },
                    "odd": {
                        "type": "object",
                        "properties": {"a-b": TEXT, "namespace": TEXT, "int": TEXT},
                        "x-kubernetes-validations": [
                            {
                                "rule": "!has(self.a__dash__b) || self.a__dash__b == 'ok'",
                                "reason": "FieldValueRequired",
                                "fieldPath": "['a-b']",
                            },
                            {
                                "rule": "!has(self.__namespace__) || self.__namespace__ != 'no'\n",
                                "message": "word",
                            },
                        ],
                    },
                    "some": {
                        "type": "array",
                        "maxItems": 3,
                        "items": {"type": "integer"},
                        "x-kubernetes-validations": [{"rule": "self[0] == 1", "message": "first is one"}],
                    },
                },
                "x-kubernetes-validations": [
                    {
                        "rule": "!has(self.n) || !has(self.some) || self.n == self.some.size()",
                        "messageExpression": "self.n > 5 ? '' : 'n is not the count'",
                        "message": "n counts",
                    },
                ],
            }
        },
    },
    "gizmos",
)


TYPED_RULES: dict[str, list[Step]] = {
    "typed rules": [
        post(CRDS, TYPED),
        post(
            GIZMOS,
            gizmo("a", n=1, first="x", tags=["b", "a"], parts=[{"name": "p", "size": 2}], limits={"k": 1}),
        ),
        post(GIZMOS, gizmo("b", n=-1)),
        post(GIZMOS, gizmo("b", tags=["x"])),
        post(GIZMOS, gizmo("b", limits={"k": 11})),
        post(GIZMOS, gizmo("b", port=1)),
        post(GIZMOS, gizmo("b", port="http")),
        post(GIZMOS, gizmo("b", when="2019-01-01T00:00:00Z")),
        post(GIZMOS, gizmo("b", when="yesterday")),
        post(GIZMOS, gizmo("b", wait="2h")),
        post(GIZMOS, gizmo("b", odd={"a-b": "no", "namespace": "no"})),
        post(GIZMOS, gizmo("b", some=[])),
        post(GIZMOS, gizmo("b", some=[2], n=7)),
        post(GIZMOS, gizmo("b", some=[1], n=3)),
        merge(f"{GIZMOS}/a", {"spec": {"n": 0}}),
        merge(f"{GIZMOS}/a", {"spec": {"first": "y"}}),
        merge(f"{GIZMOS}/a", {"spec": {"parts": [{"name": "q", "size": 1}, {"name": "p", "size": 1}]}}),
        merge(f"{GIZMOS}/a", {"spec": {"parts": [{"name": "q", "size": 1}]}}),
        merge(f"{GIZMOS}/a", {"spec": {"parts": [{"name": "p"}]}}),
        put(f"{GIZMOS}/a", {**gizmo("a", n=5), "metadata": {"name": "a", "resourceVersion": "{rv:17}"}}),
        put(f"{GIZMOS}/a", gizmo("a", n=5)),
        delete(f"{CRDS}/gizmos.{{ns}}.example.com"),
        *rules(
            {"rule": "self.n == 1", "messageExpression": "'n is ' + string(self.n)"},
            properties={"n": {"type": "integer"}},
        ),
        *rules({"rule": "self.n == 1 && self.n == 1.0"}, properties={"n": {"type": "integer"}}),
        *rules({"rule": "self.n.size() > 1"}, properties={"n": {"type": "integer"}}),
        *rules(
            {"rule": "self.m.a == 1"},
            properties={"m": {"type": "object", "additionalProperties": {"type": "string"}}},
        ),
        *rules(
            {"rule": "self.l[0].x"},
            properties={"l": {"type": "array", "maxItems": 3, "items": {"type": "object"}}},
        ),
        *rules(
            {"rule": "self.l.all(x, x.startsWith('a'))"},
            properties={"l": {"type": "array", "items": {"type": "string"}}},
        ),
        *rules({"rule": "self.s.matches('(')"}, properties={"s": TEXT}),
        *rules({"rule": "self.s == oldSelf.orValue('').s"}, properties={"s": TEXT}),
        *rules({"rule": "true", "optionalOldSelf": True}, properties={"s": TEXT}),
        *rules({"rule": "self.s == 'a'", "messageExpression": "1 + 1"}, properties={"s": TEXT}),
        *rules({"rule": "self.s == 'a'", "messageExpression": "'x' +"}, properties={"s": TEXT}),
        *rules({"rule": "self.s == 'a'", "fieldPath": ".nothing"}, properties={"s": TEXT}),
        *rules({"rule": "self.s == 'a'", "fieldPath": "s"}, properties={"s": TEXT}),
        *rules({"rule": ""}, properties={"s": TEXT}),
        *rules(
            {"rule": "self.x.exists(a, self.x.exists(b, self.x.exists(c, a == b && b == c)))"},
            properties={"x": {"type": "array", "items": {"type": "string"}}},
        ),
        *rules({"rule": "dyn(self.n) == 'a'"}, properties={"n": {"type": "integer"}}),
        *rules({"rule": "self.n in [1, 'a']"}, properties={"n": {"type": "integer"}}),
        *rules({"rule": "has(self.n.x)"}, properties={"n": {"type": "integer"}}),
        *rules({"rule": "self.map(x, x).size() > 0"}, properties={"n": {"type": "integer"}}),
        *rules({"rule": "self.n = 1"}, properties={"n": {"type": "integer"}}),
        *rules({"rule": "self.metadata.name == 'x'"}, properties={"n": {"type": "integer"}}),
        *rules({"rule": "foo(self.n)"}, properties={"n": {"type": "integer"}}),
        *rules({"rule": "self.n == quantity('1')"}, properties={"n": {"type": "integer"}}),
    ],
}
