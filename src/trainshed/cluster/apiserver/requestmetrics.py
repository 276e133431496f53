"""`/metrics`: how many requests there were, how many objects there are, and what the process uses.

Names and labels are kube-apiserver's. `prometheus_client` is imported with the first scrape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trainshed._packages import leave_init
from trainshed.cluster.apiserver.core import Call, Core
from trainshed.cluster.store import keys

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

leave_init("prometheus_client")  # its HTTP server: what it serves is written by ours

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The text format of Prometheus."""
_VERBS = {"create": "POST", "update": "PUT"}
_LABELS = ("code", "component", "dry_run", "group", "resource", "scope", "subresource", "verb", "version")


def _dry_run(values: Sequence[str]) -> str:
    """Return one of three labels, whatever a client sends: there is a counter for each."""
    if not values:
        return ""
    return "All" if set(values) == {"All"} else "invalid"


class RequestMetrics:
    """Counts requests; gives what it counted, and the rest, to whoever scrapes."""

    def __init__(self, core: Core, git_version: str) -> None:
        self._core = core
        self._git_version = git_version
        self._requests: Counter[tuple[str, ...]] = Counter()

    def count(self, call: Call, status: int) -> None:
        """Take in a request for a resource that was answered, or a stream that began, with this status."""
        found = call.route
        patch = found.verb == "patch" and "apply-patch" in call.request.headers.get("content-type", "")
        verb = "APPLY" if patch else _VERBS.get(found.verb, found.verb.upper())
        scope = "resource" if found.name else "namespace" if found.namespace else "cluster"
        dry_run = _dry_run(call.request.query.get("dryRun") or ())
        names = (found.group, found.plural, scope, found.subresource, verb, found.version)
        self._requests[(str(status), "apiserver", dry_run, *names)] += 1

    def exposition(self) -> bytes:
        """Return everything in the text format of Prometheus."""
        from prometheus_client.exposition import generate_latest
        from prometheus_client.process_collector import ProcessCollector
        from prometheus_client.registry import Collector, CollectorRegistry

        registry = CollectorRegistry()
        collected = self._collected

        class Served(Collector):
            def collect(self) -> Iterator[Metric]:
                return collected()

        registry.register(Served())
        ProcessCollector(registry=registry)
        return generate_latest(registry)

    def _collected(self) -> Iterator[Metric]:
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        text = (
            "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource"
        )
        requests = CounterMetricFamily(
            "apiserver_request", f"{text}, scope, component, and HTTP response code.", labels=_LABELS
        )
        for labels, count in sorted(self._requests.items()):
            requests.add_metric(labels, count)
        yield requests
        objects = GaugeMetricFamily(
            "apiserver_storage_objects",
            "Number of stored objects at the time of last check split by kind.",
            labels=("resource",),
        )
        for info in self._core.kinds.registry.stored():
            listing, _ = self._core.store.list(keys.under(info.storage))
            objects.add_metric((info.resource.group_resource,), len(listing))
        yield objects
        build = GaugeMetricFamily(
            "kubernetes_build_info", "The version that is served, always 1.", labels=("git_version",)
        )
        build.add_metric((self._git_version,), 1)
        yield build
