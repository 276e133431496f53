"""The small parts of the operator process: flags, metrics text, throttle, admission reviews."""

from __future__ import annotations

import asyncio
import datetime
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes.api import FakeApi
from tests.fakes.virtual_time import run_virtual
from trainshed.api.registry import KINDS
from trainshed.api.v1.pytorch import PYTORCHJOB
from trainshed.client.client import Client
from trainshed.client.transport import Response, TransportError
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.jobs.v1.frameworks.mpi import MPIOptions
from trainshed.jobs.v1.frameworks.pytorch import PyTorchOptions
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.resources import PODS
from trainshed.kube.wire.request import Request
from trainshed.operator import probes
from trainshed.operator.certificates import is_usable, make_certificates
from trainshed.operator.counting import CountedTransport
from trainshed.operator.flags import Flags, build_parser, parse
from trainshed.operator.metrics import Metrics
from trainshed.operator.throttle import ThrottledTransport
from trainshed.operator.webhook import application, review


def test_defaults_are_those_of_the_training_operator() -> None:
    flags = parse([], {})
    options = OperatorOptions(
        legacy_labels=True, by_kind={"PyTorchJob": PyTorchOptions(), "MPIJob": MPIOptions()}
    )
    assert flags == Flags(jobs=options), "with or without a command line"
    assert (flags.metrics_bind_address, flags.health_probe_bind_address) == (":8080", ":8081")
    assert (flags.leader_elect, flags.controller_threads) == (False, 1)
    assert (flags.kube_api_qps, flags.kube_api_burst) == (20, 30)
    assert flags.leader_election_id == "1ca428e5.training-operator.kubeflow.org"
    assert flags.operator_namespace == "kubeflow"
    assert flags.jobs.legacy_labels is True
    assert MPIOptions().image == "kubeflow/kubectl-delivery:latest"
    assert PyTorchOptions().image == "alpine:3.10" and PyTorchOptions().max_tries == 100


@pytest.mark.parametrize("dash", ["-", "--"])
def test_go_syntax(dash: str) -> None:
    flags = parse(
        [
            f"{dash}leader-elect",
            f"{dash}legacy-labels=false",
            f"{dash}namespace=team",
            f"{dash}controller-threads",
            "4",
            f"{dash}enable-scheme=PYTORCHJOB",
            f"{dash}enable-scheme=pytorchjob",
            f"{dash}gang-scheduler-name=None",
            f"{dash}zap-log-level=2",
            f"{dash}zap-devel",
        ],
        {},
    )
    assert flags.leader_elect and not flags.jobs.legacy_labels
    assert (flags.namespace, flags.controller_threads, flags.kinds) == ("team", 4, ("PyTorchJob",))
    assert flags.log_level == "debug"


def test_environment(tmp_path: Path) -> None:
    flags = parse([], {"KUBEFLOW_NAMESPACE": "team", "MY_POD_NAMESPACE": "ops"})
    assert (flags.namespace, flags.operator_namespace) == ("team", "ops")
    assert parse(["--namespace="], {"KUBEFLOW_NAMESPACE": "team"}).namespace == ""


@pytest.mark.parametrize(
    ("name", "scheduler"), [("", ""), ("None", ""), ("none", "none"), ("Volcano", "Volcano"), ("my", "my")]
)
def test_the_gang_scheduler_has_any_name_but_one(name: str, scheduler: str) -> None:
    assert parse([f"--gang-scheduler-name={name}"], {}).jobs.gang_scheduler == scheduler


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--enable-scheme=tfjob2"], "scheme tfjob2 is not supported yet"),
        (["--gang-policy-only=perhaps"], "neither true nor false"),
        (["--controller-threads=0"], "not at least 1"),
        (["--leader-elect=perhaps"], "neither true nor false"),
        (["--pytorch-init-container-template-file=/nowhere"], "/nowhere"),
        (["--no-such-flag"], "unrecognized"),
        (
            ["--health-probe-bind-address=nonsense"],
            "health-probe-bind-address: 'nonsense' is not [host]:port",
        ),
        (["--metrics-bind-address=:http"], "':http' is not [host]:port"),
        (["--metrics-bind-address=:99999"], "':99999' is not [host]:port"),
    ],
)
def test_wrong_flags_stop_the_start(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(arguments, {})
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_a_broken_template_stops_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = tmp_path / "template.yaml"
    template.write_text("{{.Nonsense}}")
    with pytest.raises(SystemExit):
        parse([f"--pytorch-init-container-template-file={template}"], {})
    assert "Nonsense" in capsys.readouterr().err


def test_metrics_text() -> None:
    metrics = Metrics()
    metrics.count_job("created", 'name"space', "pytorch")
    metrics.count_job("created", 'name"space', "pytorch")
    metrics.count_failed_pods({}, {"replicaStatuses": {"Worker": {"failed": 2}}})
    metrics.watch_queues(lambda: {"x": 3})
    metrics.count_reconcile("x", "success", 0.004)
    metrics.count_reconcile("x", "error", 0.004)
    metrics.count_request("10.0.0.1:443", "GET", "200")
    metrics.watch_lease("a-lease", lambda: True)
    lines = metrics.text().splitlines()
    assert metrics.jobs("created", 'name"space', "pytorch") == 2
    assert metrics.jobs("created", "other", "pytorch") == 0
    for line in (
        "# TYPE training_operator_jobs_created_total counter",
        "# HELP training_operator_jobs_created_total Counts number of jobs created",
        'training_operator_jobs_created_total{framework="pytorch",job_namespace="name\\"space"} 2.0',
        "# TYPE training_operator_jobs_restarted_total counter",
        'controller_runtime_reconcile_total{controller="x",result="success"} 1.0',
        'controller_runtime_reconcile_time_seconds_bucket{controller="x",le="0.0025"} 0.0',
        'controller_runtime_reconcile_time_seconds_bucket{controller="x",le="0.005"} 2.0',
        'controller_runtime_reconcile_errors_total{controller="x"} 1.0',
        'rest_client_requests_total{code="200",host="10.0.0.1:443",method="GET"} 1.0',
        'leader_election_master_status{name="a-lease"} 1.0',
        'workqueue_depth{name="x"} 3.0',
        "# HELP created_pods_total The total number of created pods",
        "# TYPE created_pods_total counter",
        "created_pods_total 0.0",
        "deleted_pods_total 0.0",
        "failed_pods_total 2.0",
        "succeeded_service_creation_total 0.0",
        "failed_service_creation_total 0.0",
        "created_pod_groups_total 0.0",
        "deleted_pod_groups_total 0.0",
        "# TYPE process_resident_memory_bytes gauge",
    ):
        assert line in lines, line
    assert not [line for line in lines if "_created{" in line], "upstream has no such series"


async def test_requests_are_counted_by_their_answer() -> None:
    api = FakeApi()
    counted: list[tuple[str, str]] = []
    transport = CountedTransport(api, lambda method, code: counted.append((method, code)))
    client = Client(transport)
    await api.put("/api/v1/namespaces/ns/pods/p")
    await client.get(PODS, "p", "ns")
    with pytest.raises(ApiError):
        await client.get(PODS, "q", "ns")
    watch = Request("GET", "/api/v1/namespaces/ns/pods", (("watch", "true"),))
    async with transport.stream(watch):
        pass
    api.fail_requests = 2
    with pytest.raises(TransportError):
        await client.get(PODS, "p", "ns")
    with pytest.raises(TransportError):
        async with transport.stream(watch):
            pass
    assert counted == [("GET", code) for code in ("200", "404", "200", "<error>", "<error>")]


@pytest.mark.parametrize(
    ("text", "address"),
    [(":8080", (None, 8080)), ("127.0.0.1:1", ("127.0.0.1", 1)), ("[::1]:2", ("::1", 2)), ("0", None)],
)
def test_bind_addresses(text: str, address: Any) -> None:
    assert probes.parse_address(text) == address


def test_throttle_lets_a_burst_through_then_keeps_the_rate() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        sent: list[float] = []

        class Recording:
            async def request(self, request: Request) -> Response:
                sent.append(loop.time() - start)
                return Response(200, {}, b"")

        throttled = ThrottledTransport(Recording(), qps=10, burst=5)  # type: ignore[arg-type]
        start = loop.time()
        await asyncio.gather(*(throttled.request(Request("GET", "/")) for _ in range(25)))
        assert sent[:5] == [0, 0, 0, 0, 0]
        assert sent[5:] == pytest.approx([0.1 * n for n in range(1, 21)])
        await asyncio.sleep(100)
        sent.clear()
        start = loop.time()
        await asyncio.gather(*(throttled.request(Request("GET", "/")) for _ in range(6)))
        assert sent == pytest.approx([0, 0, 0, 0, 0, 0.1]), "idle time refills the burst, no more"

    run_virtual(main())


def admission(operation: str, obj: Any, old: Any = None) -> Any:
    request = {"uid": "123", "operation": operation, "object": obj, "oldObject": old}
    body = msgspec.json.encode({"kind": "AdmissionReview", "request": request})
    return review(PYTORCHJOB, body)["response"]


def test_admission_review_denies_what_the_api_server_denies() -> None:
    bad = {"metadata": {"name": "Bad_Name"}, "spec": {"pytorchReplicaSpecs": {}}}
    answer = admission("CREATE", bad)
    assert (answer["uid"], answer["allowed"]) == ("123", False)
    assert answer["status"]["reason"] == "Forbidden"
    assert "metadata.name: Invalid value" in answer["status"]["message"]
    assert admission("DELETE", None, bad)["allowed"]
    with pytest.raises(ValueError, match="not an AdmissionReview"):
        review(PYTORCHJOB, b"{}")


def test_only_the_kinds_of_this_operator_are_answered_for() -> None:
    """With a failurePolicy of Fail, writes of the others are then refused: as upstream has it."""
    flags = parse(["--enable-scheme=jaxjob", "--enable-scheme=TFJob"], {})
    paths = {resource.canonical for resource in application(flags).router.resources()}
    assert paths == {"/validate-kubeflow-org-v1-jaxjob", "/validate-kubeflow-org-v1-tfjob"}
    assert len(list(application(parse([], {})).router.resources())) == len(KINDS)


def test_certificates_serve_their_host_until_they_near_their_end() -> None:
    now = datetime.datetime.now(datetime.UTC)
    pems = make_certificates("training-operator.kubeflow.svc", now)
    assert is_usable(pems, "training-operator.kubeflow.svc", now)
    assert not is_usable(pems, "other.kubeflow.svc", now)
    assert not is_usable(pems, "training-operator.kubeflow.svc", now + datetime.timedelta(days=3600))
    assert not is_usable(
        {**pems, "ca.crt": make_certificates("x", now)["ca.crt"]}, "training-operator.kubeflow.svc", now
    )
    assert not is_usable({}, "training-operator.kubeflow.svc", now)


def test_every_flag_is_documented_with_its_default() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/operator.md").read_text()
    documented = dict(re.findall(r"^\| `([a-z-]+)` \| `?(.*?)`? \|", page, re.MULTILINE))
    actions = {
        a.option_strings[0].removeprefix("--"): a
        for a in build_parser({})._actions
        if a.help != "==SUPPRESS=="
    }
    assert documented.keys() == actions.keys() - {"-h"}
    for name, default in documented.items():
        actual = actions[name].default
        shown = f"{actual:g}" if isinstance(actual, float) else str(actual)
        if actual not in ("", None):
            assert default == (shown.lower() if isinstance(actual, bool) else shown)


@pytest.mark.parametrize(("method", "body"), [("GET", "fine"), ("HEAD", "")])
def test_a_probe_by_head_has_the_headers_only(method: str, body: str) -> None:
    routes: probes.Routes = {"/healthz": lambda: (200, "text/plain", "fine")}
    head, _, sent = probes._answer(f"{method} /healthz?x HTTP/1.1\r\n\r\n".encode(), routes).partition(
        b"\r\n\r\n"
    )
    assert head.startswith(b"HTTP/1.1 200 ") and b"Content-Length: 4" in head
    assert sent.decode() == body
