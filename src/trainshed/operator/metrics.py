"""What the operator counts and times, by upstream's names, in a registry of its own.

Names and help texts of the job counters: the metrics page of the Kubeflow training operator v1; those of
reconciles and queues: controller-runtime's; those of requests and leases: client-go's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.metrics import Counter, Histogram, disable_created_metrics
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from trainshed.jobs.engine.children import count_in
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.plan import QUIET, Action, Apply, Create, Delete

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The text format of Prometheus."""

disable_created_metrics()  # type: ignore[no-untyped-call]  # upstream has no `_created` series

JOB_COUNTERS = {
    "created": "Counts number of jobs created",
    "deleted": "Counts number of jobs deleted",
    "successful": "Counts number of jobs successful",
    "failed": "Counts number of jobs failed",
    "restarted": "Counts number of jobs restarted",
}
"""Help texts by the word in `training_operator_jobs_<word>_total`, as in the training operator v1."""

OBJECT_COUNTERS = {
    "created_pods": "The total number of created pods",
    "deleted_pods": "The total number of deleted pods",
    "failed_pods": "The total number of failed pods",
    "succeeded_service_creation": "The total number of succeeded service creation",
    "failed_service_creation": "The total number of failed service creation",
    "created_pod_groups": "The total number of created pod groups",
    "deleted_pod_groups": "The total number of deleted pod groups",
}
"""Help texts by the name before `_total`. Upstream counts these, too, and serves them nowhere."""
_ACTIONS = {
    (Create, "Pod", True): "created_pods",
    (Delete, "Pod", True): "deleted_pods",
    (Create, "Service", True): "succeeded_service_creation",
    (Create, "Service", False): "failed_service_creation",
    (Apply, "PodGroup", True): "created_pod_groups",
    (Delete, "PodGroup", True): "deleted_pod_groups",
}

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class _Gauge(Collector):
    """A gauge with a value per name, read at each scrape."""

    def __init__(self, metric: str, text: str, read: Callable[[], Mapping[str, float]]) -> None:
        self._metric, self._text, self._read = metric, text, read

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(self._metric, self._text, labels=["name"])
        for name, value in self._read().items():
            family.add_metric([name], value)
        yield family


class Metrics:
    """The metrics of one operator."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._jobs = {
            word: Counter(
                f"training_operator_jobs_{word}",
                text,
                ["job_namespace", "framework"],
                registry=self._registry,
            )
            for word, text in JOB_COUNTERS.items()
        }
        self._objects = {
            name: Counter(name, text, registry=self._registry) for name, text in OBJECT_COUNTERS.items()
        }
        self._reconciles = Counter(
            "controller_runtime_reconcile",
            "Total number of reconciliations per controller",
            ["controller", "result"],
            registry=self._registry,
        )
        self._reconcile_errors = Counter(
            "controller_runtime_reconcile_errors",
            "Total number of reconciliation errors per controller",
            ["controller"],
            registry=self._registry,
        )
        self._requests = Counter(
            "rest_client_requests",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ["code", "host", "method"],
            registry=self._registry,
        )
        self._reconcile_seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Length of time per reconciliation per controller",
            ["controller"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        ProcessCollector(registry=self._registry)

    def watch_queues(self, read: Callable[[], Mapping[str, int]]) -> None:
        """Serve the depth of each queue by the name of its controller; `read` is called at each scrape."""
        self._registry.register(_Gauge("workqueue_depth", "Current depth of workqueue", read))

    def watch_lease(self, name: str, is_leading: Callable[[], bool]) -> None:
        """Serve whether this process holds the lease of that name; `is_leading` is called at each scrape."""
        text = "1 where this process is the master of the lease, 0 where it is a backup"
        self._registry.register(_Gauge("leader_election_master_status", text, lambda: {name: is_leading()}))

    def count_request(self, host: str, method: str, code: str) -> None:
        """Raise `rest_client_requests_total`."""
        self._requests.labels(code=code, host=host, method=method).inc()

    def count_job(self, word: str, namespace: str, framework: str) -> None:
        """Raise `training_operator_jobs_<word>_total`."""
        self._jobs[word].labels(job_namespace=namespace, framework=framework).inc()

    def count_action(self, action: Action, *, done: bool) -> None:
        """Count what was made or deleted, or a service that was refused."""
        name = _ACTIONS.get((type(action), action.resource.kind, done))
        # What is applied to an object that is there is not told.
        if name is not None and action.told is not QUIET:
            self._objects[name].inc()

    def count_failed_pods(self, before: Object, after: Object) -> None:
        """Count by how much each count of failed pods grew from one status to the next."""
        for type_ in section(after, "replicaStatuses"):
            was, is_ = (
                count_in(section(status, "replicaStatuses", type_), "failed") for status in (before, after)
            )
            self._objects["failed_pods"].inc(max(is_ - was, 0))

    def count_reconcile(self, controller: str, result: str, seconds: float) -> None:
        """Note how one reconcile ended and how long it took."""
        self._reconciles.labels(controller=controller, result=result).inc()
        if result == "error":
            self._reconcile_errors.labels(controller=controller).inc()
        self._reconcile_seconds.labels(controller=controller).observe(seconds)

    def jobs(self, word: str, namespace: str, framework: str) -> int:
        """Return `training_operator_jobs_<word>_total`; 0 before the first."""
        labels = {"job_namespace": namespace, "framework": framework}
        return int(self._registry.get_sample_value(f"training_operator_jobs_{word}_total", labels) or 0)

    def objects(self, name: str) -> int:
        """Return one of `OBJECT_COUNTERS`."""
        return int(self._registry.get_sample_value(f"{name}_total") or 0)

    def text(self) -> str:
        """Return all metrics in Prometheus' text format, version 0.0.4."""
        from prometheus_client.exposition import generate_latest  # the package's HTTP server comes with it

        return generate_latest(self._registry).decode()
