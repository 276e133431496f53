"""Engines for CEL rules in CRDs, for 0007: `python docs/decisions/measure/rules.py`.

Runs rules of the kinds that CRDs use, most of them from the Kubernetes documentation of validation rules, through
our evaluator (`kube.schema.cel`) and through cel-python when it is installed.
"""
# ruff: noqa: T201

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

from figures import cost, median, print_table, print_versions

from trainshed.kube.schema.cel import evaluate_rules
from trainshed.kube.schema.nodes import from_crd

SELF: dict[str, Any] = {
    "minReplicas": 1, "replicas": 3, "maxReplicas": 5, "name": "worker-0", "policy": "OnFailure",
    "components": {"Widget": 10, "Gadget": 2}, "set1": ["a", "b"], "set2": ["c"], "namespace": "team",
    "jobs": [{"name": "a", "replicas": 1}, {"name": "b", "replicas": 2}],
    "widgets": [{"key": "x", "foo": 1}], "when": "2026-01-02T03:04:05Z", "ttl": "90s", "memory": "2Gi",
    "address": "https://example.com/path", "ip": "10.0.0.1", "labels": {"app.kubernetes.io/name": "x"},
}  # fmt: skip
RULES = {
    "comparison": "self.minReplicas <= self.replicas && self.replicas <= self.maxReplicas",
    "map membership": "'Widget' in self.components && self.components['Widget'] == 10",
    "has and ternary": "has(self.policy) ? self.policy in ['OnFailure', 'Never'] : true",
    "all over a list": "self.jobs.all(j, j.replicas > 0)",
    "exists_one": "self.jobs.exists_one(j, j.name == 'a')",
    "filter, map, size": "self.jobs.filter(j, j.replicas > 1).map(j, j.name).size() == 1",
    "concatenation of lists": "(self.set1 + self.set2).size() == 3",
    "regular expression": "self.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "startsWith, size": "self.name.startsWith('worker-') && size(self.name) < 64",
    "reserved word as a field": "self.__namespace__ == 'team'",
    "all over a map": "self.components.all(k, self.components[k] > 0)",
    "timestamp": "self.when > timestamp('2020-01-01T00:00:00Z')",
    "duration": "duration(self.ttl) < duration('1h')",
    "conversion": "int(self.name.split('-')[1]) == 0",
    "strings: lowerAscii, replace": "self.policy.lowerAscii().replace('on', '') == 'failure'",
    "lists: isSorted, sum": "[1, 2, 3].isSorted() && [1, 2, 3].sum() == 6",
    "regex library: find": "self.name.find('[0-9]+') == '0'",
    "optional field": "self.?policy.orValue('x') == 'OnFailure'",
    "URL library": "url(self.address).getHost() == 'example.com'",
    "quantity library": "quantity(self.memory).isGreaterThan(quantity('1Gi'))",
    "IP library": "isIP(self.ip)",
    "format library": "!format.dns1123Label().validate(self.name).hasValue()",
}


def schema(rule: str) -> Any:
    text: dict[str, Any] = {"type": "string"}
    number: dict[str, Any] = {"type": "integer"}
    fields: dict[str, Any] = {}
    for key, value in SELF.items():
        fields[key] = number if isinstance(value, int) else text
    fields["components"] = {"type": "object", "additionalProperties": number}
    fields["labels"] = {"type": "object", "additionalProperties": text}
    fields["set1"] = fields["set2"] = {"type": "array", "items": text}
    fields["jobs"] = {
        "type": "array",
        "items": {"type": "object", "properties": {"name": text, "replicas": number}},
    }
    fields["widgets"] = {
        "type": "array",
        "items": {"type": "object", "properties": {"key": text, "foo": number}},
    }
    fields["when"] = {"type": "string", "format": "date-time"}
    spec = {"type": "object", "properties": fields, "x-kubernetes-validations": [{"rule": rule}]}
    return from_crd({"type": "object", "properties": {"spec": spec}})


def ours(rule: str) -> Callable[[], bool]:
    node = schema(rule)
    return lambda: not evaluate_rules({"spec": SELF}, None, node)


def cel_python(rule: str) -> Callable[[], bool]:
    import celpy
    from celpy import celtypes, json_to_cel

    environment = celpy.Environment()
    program = environment.program(environment.compile(rule))
    value = json_to_cel(SELF)
    value[celtypes.StringType("when")] = celtypes.TimestampType(SELF["when"])
    value[celtypes.StringType("__namespace__")] = celtypes.StringType("team")
    return lambda: bool(program.evaluate({"self": value}))


def microseconds(check: Callable[[], bool]) -> float:
    """Return the median time of one evaluation; raises what the rule raises."""
    times = []
    for _ in range(30):
        started = time.perf_counter()
        if not check():
            raise ValueError("false")
        times.append(time.perf_counter() - started)
    return median(times) * 1e6


def main() -> None:
    engines = {"kube.cel": ours}
    if importlib.util.find_spec("celpy"):
        engines["cel-python"] = cel_python
        print_versions("common-expression-language", "cel-python")
    else:
        print_versions("common-expression-language")
    rows = []
    for name, rule in RULES.items():
        cells = []
        for engine in engines.values():
            try:
                cells.append(f"{microseconds(engine(rule)):.0f} µs")
            except Exception:
                cells.append("no")
        rows.append([name, *cells])
    print_table(["rule", *engines], rows)
    print()
    codes = {
        "our evaluator": "import trainshed.kube.schema.cel",
        "the native module, which words what is no CEL": (
            "import trainshed.kube.schema.cel; import trainshed.kube.cel.wording as w; w.wording('1 +')"
        ),
    }
    if "cel-python" in engines:
        codes["cel-python"] = "import trainshed.kube.schema.cel; import celpy"
    rows = []
    for name, code in codes.items():
        milliseconds, mebibytes = cost(code)
        rows.append([name, f"{milliseconds:.0f} ms", f"{mebibytes:.1f} MiB"])
    print_table(["imported in a fresh process", "time", "resident"], rows)


if __name__ == "__main__":
    main()
