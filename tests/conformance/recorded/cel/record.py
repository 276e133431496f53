"""Records what CEL expressions come to: `python -m tests.conformance.recorded.cel.record --kubeconfig FILE`.

Each line of `expressions.txt` becomes a validation of a ValidatingAdmissionPolicy that warns; the warning holds the
value, as `format` writes it, or the error. What does not compile is recorded from the refusal of the policy. The
policy concerns one kind of its own, whose object is `OBJECT`. Needs the rights of an administrator.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import ssl
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trainshed.client.config import load_kubeconfig

FOLDER = Path(__file__).parent
GROUP = "recorded.trainshed.test"
OBJECT: dict[str, Any] = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "Probe",
    "metadata": {"name": "probe"},
    "spec": {
        "n": 5,
        "f": 2.5,
        "neg": -3,
        "s": "hello",
        "e": "",
        "list": [3, 1, 2],
        "strs": ["b", "a", "c"],
        "m": {"a": 1, "b": 2},
        "nested": {"x": {"y": "z"}},
        "nul": None,
        "flag": True,
        "when": "2024-01-02T03:04:05Z",
        "dur": "1h30m",
        "q": "1.5Gi",
        "ip": "10.1.2.3",
        "url": "https://user@example.com:8080/a/b?x=1&y=2&x=3",
        "empty": {},
        "jobs": [{"name": "a", "replicas": 1}, {"name": "b", "replicas": 2}],
    },
}
_BATCH = 20
_SENTINEL = "all said"
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SERVED_SECONDS = 60.0


def expressions() -> list[str]:
    """Return the expressions of the table."""
    lines = (FOLDER / "expressions.txt").read_text().splitlines()
    return [line.rstrip() for line in lines if line and not line.startswith("#")]


class _Server:
    def __init__(self, kubeconfig: str) -> None:
        config = load_kubeconfig(kubeconfig)
        self._at = urlsplit(config.server)
        self._token = config.token or ""

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any, list[str]]:
        """Return status, body and warnings."""
        context = ssl._create_unverified_context()  # the recorder's own server on loopback
        connection = http.client.HTTPSConnection(self._at.hostname or "", self._at.port, context=context)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = connection.getresponse()
        said = response.read()
        warnings = [value for name, value in response.getheaders() if name.lower() == "warning"]
        connection.close()
        return response.status, json.loads(said), [_unquoted(value) for value in warnings]


def _unquoted(header: str) -> str:
    text = header.encode("latin-1").decode()
    inner = text[text.index('"') + 1 : text.rindex('"')]
    return re.sub(r"\\(.)", r"\1", inner)


def policy(batch: list[str]) -> dict[str, Any]:
    """Return a policy that answers with the values of expressions."""
    validations = [
        {"expression": f"[{text}].size() > 100", "messageExpression": f"'<{index}>' + '%s'.format([{text}])"}
        for index, text in enumerate(batch)
    ]
    validations.append({"expression": "false", "message": _SENTINEL})
    rule = {
        "apiGroups": [GROUP],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["probes"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "recorded-cel"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": validations},
    }


_BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "recorded-cel"},
    "spec": {"policyName": "recorded-cel", "validationActions": ["Warn"]},
}
_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"probes.{GROUP}"},
    "spec": {
        "group": GROUP,
        "names": {"kind": "Probe", "plural": "probes"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                        },
                    }
                },
            }
        ],
    },
}


def compile_error(text: str) -> str:
    """Return the message of a compilation error without the lines that show where."""
    found = re.search(r"ERROR: <input>:\d+:\d+: (.*?)(?:\n|$)", text)
    return found[1].strip() if found else text


def record(kubeconfig: str) -> None:
    """Write `1.33.json`: per expression one of `value`, `error` and `refused`."""
    server = _Server(kubeconfig)
    server.ask("POST", _CRDS, _CRD)
    answers: dict[str, dict[str, str]] = {}
    try:
        left = expressions()
        while left:
            batch, left = left[:_BATCH], left[_BATCH:]
            _batch(server, batch, answers)
            print(len(answers), flush=True)
    finally:
        for path in (f"{_BINDINGS}/recorded-cel", f"{_POLICIES}/recorded-cel", f"{_CRDS}/probes.{GROUP}"):
            server.ask("DELETE", path)
    text = json.dumps(answers, indent=1, ensure_ascii=False)
    (FOLDER / "1.33.json").write_text(text + "\n")
    kinds = [next(iter(answer)) for answer in answers.values()]
    print({kind: kinds.count(kind) for kind in set(kinds)})


def _batch(server: _Server, batch: list[str], answers: dict[str, dict[str, str]]) -> None:
    code, body, _ = server.ask("POST", _POLICIES, policy(batch))
    while code == 422:
        for cause in body["details"]["causes"]:
            index = int(re.findall(r"validations\[(\d+)\]", cause["field"])[0])
            answers.setdefault(batch[index], {"refused": compile_error(cause["message"])})
        batch = [text for text in batch if text not in answers]
        if not batch:
            return
        code, body, _ = server.ask("POST", _POLICIES, policy(batch))
    if code != 201:
        raise RuntimeError(f"{code} {body}")
    server.ask("POST", _BINDINGS, _BINDING)
    deadline = time.monotonic() + _SERVED_SECONDS
    warnings: list[str] = []
    while not any(_SENTINEL in warning for warning in warnings):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the policy with {batch} warned of {warnings}")
        code, body, warnings = server.ask("POST", f"/apis/{GROUP}/v1/probes?dryRun=All", OBJECT)
    for warning in warnings:
        said = warning.partition("with binding 'recorded-cel': ")[2]
        value = re.match(r"<(\d+)>(.*)", said, re.DOTALL)
        error = re.match(r"expression '\[(.*)\]\.size\(\) > 100' resulted in error: (.*)", said, re.DOTALL)
        if value:
            answers[batch[int(value[1])]] = {"value": value[2]}
        elif error:
            answers[error[1]] = {"error": error[2]}
    for text in batch:
        # A warning with a control character does not get out.
        answers.setdefault(text, {"unsaid": ""})
    server.ask("DELETE", f"{_BINDINGS}/recorded-cel")
    server.ask("DELETE", f"{_POLICIES}/recorded-cel")
    while server.ask("POST", f"/apis/{GROUP}/v1/probes?dryRun=All", OBJECT)[2]:
        if time.monotonic() > deadline:
            raise TimeoutError("the policy still warns though it is deleted")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kubeconfig", required=True)
    record(parser.parse_args().kubeconfig)


if __name__ == "__main__":
    main()
