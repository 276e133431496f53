"""Counters and gauges in the Prometheus text format (version 0.0.4).

Few metrics with few labels: a dictionary and forty lines instead of a client library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

JOB_COUNTERS = {
    "created": "Counts number of jobs created",
    "deleted": "Counts number of jobs deleted",
    "successful": "Counts number of jobs successful",
    "failed": "Counts number of jobs failed",
    "restarted": "Counts number of jobs restarted",
}
"""Help texts by the word in `training_operator_jobs_<word>_total`, as in the training operator v1."""

RECONCILES = "controller_runtime_reconcile_total"
RECONCILE_SECONDS = "controller_runtime_reconcile_time_seconds_sum"

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Holds values by name and labels; names are declared first, with their help."""

    def __init__(self) -> None:
        self._declared: dict[str, tuple[str, str]] = {}
        self._values: dict[str, dict[Labels, float]] = {}
        self._read: dict[str, Callable[[], Mapping[Labels, float]]] = {}
        for word, text in JOB_COUNTERS.items():
            self.declare(f"training_operator_jobs_{word}_total", "counter", text)
        self.declare(RECONCILES, "counter", "Total number of reconciliations per controller")
        self.declare(RECONCILE_SECONDS, "counter", "Seconds spent in reconciliations")

    def declare(self, name: str, kind: str, help: str) -> None:
        """Make `name` known; `kind` is counter or gauge."""
        self._declared[name] = (kind, help)
        self._values[name] = {}

    def gauge(self, name: str, help: str, read: Callable[[], Mapping[Labels, float]]) -> None:
        """Make `name` a gauge whose values are read at each scrape."""
        self.declare(name, "gauge", help)
        self._read[name] = read

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Raise a counter."""
        key = tuple(labels.items())
        values = self._values[name]
        values[key] = values.get(key, 0.0) + amount

    def count_job(self, word: str, namespace: str, framework: str) -> None:
        """Raise `training_operator_jobs_<word>_total`."""
        self.count(f"training_operator_jobs_{word}_total", job_namespace=namespace, framework=framework)

    def count_reconcile(self, controller: str, result: str, seconds: float) -> None:
        """Note how one reconcile ended and how long it took."""
        self.count(RECONCILES, controller=controller, result=result)
        self.count(RECONCILE_SECONDS, seconds, controller=controller)

    def text(self) -> str:
        """Return all metrics, ready to be served."""
        lines: list[str] = []
        for name, (kind, help) in self._declared.items():
            lines += [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]
            values = self._read[name]() if name in self._read else self._values[name]
            for labels, value in values.items():
                inner = ",".join(f'{key}="{_escape(text)}"' for key, text in labels)
                shown = int(value) if value == int(value) else value
                lines.append(f"{name}{{{inner}}} {shown}" if inner else f"{name} {shown}")
        return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
