"""Command-line flags of the operator: the names and defaults of the Kubeflow training operator v1.

Go's flag syntax is accepted: one dash or two, `-flag=value` or `-flag value`, booleans as `-flag` or
`-flag=false`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from trainshed.api.registry import KINDS
from trainshed.jobs import registry
from trainshed.jobs.engine.model import DEFAULTS, Flag, OperatorOptions
from trainshed.operator.probes import parse_address

DEFAULT_LEASE = "1ca428e5.training-operator.kubeflow.org"
CERTIFICATE_SECRET = "training-operator-webhook-cert"  # noqa: S105 - the name of a Secret


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """How the process was started. Empty texts mean "not given"; bind addresses are `[host]:port` or `0` for none."""

    metrics_bind_address: str = ":8080"
    health_probe_bind_address: str = ":8081"
    leader_elect: bool = False
    leader_election_id: str = DEFAULT_LEASE
    kinds: tuple[str, ...] = tuple(KINDS)
    namespace: str = ""
    operator_namespace: str = "kubeflow"
    controller_threads: int = 1
    kube_api_qps: float = 20.0
    kube_api_burst: int = 30
    enable_webhook: bool = False
    webhook_server_port: int = 9443
    webhook_service_name: str = "training-operator"
    webhook_secret_name: str = CERTIFICATE_SECRET
    kubeconfig: str = ""
    log_level: str = "info"
    log_format: str = "json"
    jobs: OperatorOptions = OperatorOptions()


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Flags:
    """Return the flags; SystemExit 2 with a message on stderr for wrong ones."""
    parser = build_parser(environment)
    found = parser.parse_args(arguments)
    try:
        jobs = _job_options(found)
    except ValueError as error:
        parser.error(str(error))
    return Flags(
        metrics_bind_address=found.metrics_bind_address,
        health_probe_bind_address=found.health_probe_bind_address,
        leader_elect=found.leader_elect,
        leader_election_id=found.leader_election_id,
        kinds=tuple(dict.fromkeys(found.enable_scheme)) if found.enable_scheme else tuple(KINDS),
        namespace=found.namespace,
        operator_namespace=environment.get("MY_POD_NAMESPACE") or "kubeflow",
        controller_threads=found.controller_threads,
        kube_api_qps=found.kube_api_qps,
        kube_api_burst=found.kube_api_burst,
        enable_webhook=found.enable_webhook,
        webhook_server_port=found.webhook_server_port,
        webhook_service_name=found.webhook_service_name,
        webhook_secret_name=found.webhook_secret_name,
        kubeconfig=found.kubeconfig,
        log_level=found.zap_log_level,
        log_format=found.zap_encoder,
        jobs=jobs,
    )


def _job_options(found: argparse.Namespace) -> OperatorOptions:
    """What the pure part needs. ValueError for a flag of a kind that cannot be used, naming it."""
    return OperatorOptions(
        legacy_labels=found.legacy_labels,
        gang_scheduler=gang_scheduler(found.gang_scheduler_name),
        gang_policy_only=found.gang_policy_only,
        by_kind=registry.options_of_kinds({flag.name: _value(flag, found) for flag in registry.flags()}),
    )


def gang_scheduler(name: str) -> str:
    """Return the scheduler that a `gang-scheduler-name` means: `None`, so spelled, is none, as upstream."""
    return "" if name == "None" else name


def _value(flag: Flag, found: argparse.Namespace) -> str | int:
    """Return what a kind's flag says. A fallback file may be absent; one that was named may not."""
    given: str | int = getattr(found, flag.name.replace("-", "_"))
    if flag.type != "file":
        return given
    file = Path(str(given) or flag.fallback)
    if not given and not file.is_file():
        return ""
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--{flag.name}: {error}") from error


def build_parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """Return the parser; defaults may come from `environment`."""
    parser = argparse.ArgumentParser(
        prog="trainshed-operator",
        usage="trainshed-operator [flags]",
        description="Runs Kubeflow training jobs on a Kubernetes API.",
        allow_abbrev=False,
    )

    def flag(name: str, default: object, help: str, *, type: object = str, **more: object) -> None:
        kind = {"nargs": "?", "const": True, "type": _boolean} if type is bool else {"type": type}
        text = help if default in ("", None) else f"{help} (default: {default})"
        parser.add_argument(f"--{name}", f"-{name}", default=default, help=text, **kind, **more)  # type: ignore[arg-type]

    flag("metrics-bind-address", ":8080", "where /metrics is served; 0 turns it off", type=_address)
    flag(
        "health-probe-bind-address",
        ":8081",
        "where /healthz and /readyz are served; 0 turns it off",
        type=_address,
    )
    flag(
        "leader-elect", False, "work only while holding a Lease, so that several replicas can wait", type=bool
    )
    flag("leader-election-id", DEFAULT_LEASE, "name of that Lease, in the operator's namespace")
    flag(
        "enable-scheme",
        None,
        "kind to reconcile; repeatable; all when not given",
        type=_kind,
        action="append",
    )
    flag(
        "gang-scheduler-name",
        "",
        "scheduler that places the pods of a job together: volcano, or any other name for one of scheduler-plugins; "
        "empty or None for none",
    )
    flag("gang-policy-only", False, "only jobs with a schedulingPolicy are placed so", type=bool)
    flag("namespace", environment.get("KUBEFLOW_NAMESPACE", ""), "only this namespace; empty for all")
    flag("controller-threads", 1, "jobs of one kind reconciled at the same time", type=_positive)
    flag("kube-api-qps", 20.0, "sustained requests per second to the API", type=float)
    flag("kube-api-burst", 30, "requests that may be sent at once", type=_positive)
    for own in registry.flags():
        default = environment.get(own.variable) or own.default
        flag(own.name, default, own.help, type=_positive if own.type == "count" else str)
    flag(
        "legacy-labels",
        DEFAULTS.legacy_labels,
        "also write job-name, replica-type, replica-index and job-role",
        type=bool,
    )
    flag("enable-webhook", False, "serve the validating webhook and keep its certificate", type=bool)
    flag("webhook-server-port", 9443, "where the webhook is served", type=_positive)
    flag("webhook-service-name", "training-operator", "Service that leads to the webhook")
    flag("webhook-secret-name", CERTIFICATE_SECRET, "Secret that keeps the webhook's certificate")
    flag("kubeconfig", "", "file to connect with; the pod's service account when not given")
    flag("zap-log-level", "info", "debug, info or error", type=_log_level)
    flag("zap-encoder", "json", "json or console", choices=["json", "console"])
    # These change how Go formats a log. They are known, so that existing manifests start, and change nothing.
    for name in ("zap-devel", "zap-stacktrace-level", "zap-time-encoding"):
        parser.add_argument(f"--{name}", f"-{name}", nargs="?", help=argparse.SUPPRESS)
    return parser


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "t", "1"):
        return True
    if text.lower() in ("false", "f", "0"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def _address(text: str) -> str:
    try:
        parse_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _kind(text: str) -> str:
    for name in KINDS:
        if name.lower() == text.lower():
            return name
    raise argparse.ArgumentTypeError(f"scheme {text} is not supported yet")


def _log_level(text: str) -> str:
    """Numbers are zap's extra verbosity: all of them mean debug here."""
    level = "debug" if text.isdigit() else text.lower()
    if level not in ("debug", "info", "warn", "error"):
        raise argparse.ArgumentTypeError(f"unknown level {text!r}")
    return level
