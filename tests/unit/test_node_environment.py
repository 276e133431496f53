"""Container environments: expansion, sources, order, service variables."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.node_builders import make_container, make_pod
from trainshed.cluster.node.pod.environment import (
    ConfigError,
    Egress,
    Surroundings,
    container_environment,
    proxy_environment,
    search_path,
    thread_environment,
)
from trainshed.cluster.node.podfields import NodeFacts
from trainshed.cluster.node.references import References
from trainshed.kube.meta.expansion import LONGEST, TooLong, expand, expand_all, references

NODE = NodeFacts("node-a", "10.88.0.1", {"cpu": "4", "memory": "8Gi"})
CONFIG = {"metadata": {"name": "cm"}, "data": {"A": "from-cm", "bad key": "x", "B": "$(A)"}}
SECRET = {"metadata": {"name": "s"}, "data": {"PASSWORD": base64.b64encode(b"hunter2").decode()}}


def environment(container, *, services=(), pod=None, links=False):
    around = Surroundings(
        node=NODE,
        pod_ip="10.88.0.7",
        references=References(
            {("configmaps", "cm"): CONFIG, ("secrets", "s"): SECRET, ("configmaps", "no"): None}
        ),
        services=services,
    )
    return container_environment(pod or make_pod(container, enableServiceLinks=links), container, around)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(A", "$(A"),
        ("$(nope)", "$(nope)"),
        ("a$", "a$"),
        ("$A ${A}", "$A ${A}"),
        ("$(A)$(B)", "12"),
        ("$()", "$()"),
    ],
)
def test_expansion(text, expected):
    assert expand(text, {"A": "1", "B": "2"}) == expected


@given(st.text(alphabet="$()AB ", max_size=20))
def test_doubling_every_dollar_is_an_escape(text):
    assert expand(text.replace("$", "$$"), {"A": "1", "B": "2"}) == text


def test_references():
    assert references("$(A)/$(C)$$(D)$(E") == {"A", "C"}


def test_a_text_ends_where_no_program_would_take_it():
    assert len(expand("$(A)" * 4, {"A": "x" * (LONGEST // 4)})) == LONGEST
    with pytest.raises(TooLong, match="131,072 characters"):
        expand("$(A)" * 4 + "x", {"A": "x" * (LONGEST // 4)})
    with pytest.raises(TooLong):
        expand_all(["$(A)"] * 60, {"A": "x" * LONGEST})


def test_variables_that_double_are_refused():
    declared = [{"name": "V0", "value": "xx"}]
    declared += [{"name": f"V{i}", "value": f"$(V{i - 1})$(V{i - 1})"} for i in range(1, 60)]
    with pytest.raises(ConfigError, match=r"^env V17: with the variables that it names longer"):
        environment(make_container(env=declared))


def test_many_brackets_that_nothing_closes():
    assert references("$(" * 200_000) == set()
    assert expand("$(A$(B", {"A": "1"}) == "$(A$(B"


@given(st.permutations(["X", "Y", "Z"]))
def test_a_variable_sees_only_what_is_declared_above_it(order):
    declared = [{"name": n, "value": "v" + "".join(f"$({o})" for o in "XYZ" if o != n)} for n in order]
    env = environment(make_container(env=declared))
    first = order[0]
    assert env[first] == "v" + "".join(f"$({o})" for o in "XYZ" if o != first)
    assert "$(" not in env[order[2]].replace(f"$({order[2]})", "").replace(f"$({order[1]})", "").replace(
        f"$({order[0]})", ""
    )
    assert env[order[1]].count(env[first]) == 1


def test_sources_in_order():
    container = make_container(
        envFrom=[{"configMapRef": {"name": "cm"}}, {"prefix": "P_", "secretRef": {"name": "s"}}],
        env=[
            {"name": "A", "value": "own"},
            {"name": "C", "value": "$(A)-$(P_PASSWORD)-$(KUBERNETES_SERVICE_HOST)"},
            {"name": "EMPTY"},
            {"name": "K", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "A"}}},
            {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "PASSWORD"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "L", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
            {"name": "O", "valueFrom": {"configMapKeyRef": {"name": "no", "key": "A", "optional": True}}},
        ],
    )
    env = environment(container, pod=make_pod(container, metadata={"labels": {"app": "x"}}))
    assert env["A"] == "own" and env["B"] == "$(A)"
    assert env["C"] == "own-hunter2-10.96.0.1"
    assert env["EMPTY"] == "" and env["K"] == "from-cm" and env["S"] == "hunter2"
    assert (env["IP"], env["N"], env["L"]) == ("10.88.0.7", "web", "x")
    assert "O" not in env and "bad key" not in env


@pytest.mark.parametrize(
    "reference, expected",
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "8192"),
        ({"resource": "requests.memory"}, "0"),
    ],
)
def test_resource_fields_round_up_and_fall_back_to_the_node(reference, expected):
    container = make_container(
        resources={"limits": {"cpu": "1500m"}},
        env=[{"name": "R", "valueFrom": {"resourceFieldRef": reference}}],
    )
    assert environment(container)["R"] == expected


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"envFrom": [{"configMapRef": {"name": "no"}}]}, 'configmap "no" not found'),
        ({"envFrom": [{"secretRef": {"name": "no"}}]}, 'secret "no" not found'),
        (
            {"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "Q"}}}]},
            "couldn't find key Q in ConfigMap default/cm",
        ),
    ],
)
def test_what_is_missing_is_named(fields, message):
    with pytest.raises(ConfigError, match=message):
        environment(make_container(**fields))


def test_service_variables():
    service = {
        "metadata": {"name": "my-db", "namespace": "default"},
        "spec": {"clusterIP": "10.96.0.9", "ports": [{"name": "sql", "port": 5432}]},
    }
    headless = {
        "metadata": {"name": "h", "namespace": "default"},
        "spec": {"clusterIP": "None", "ports": [{"port": 1}]},
    }
    env = environment(make_container(), services=[service, headless], links=True)
    assert env["MY_DB_SERVICE_HOST"] == "10.96.0.9"
    assert env["MY_DB_SERVICE_PORT"] == env["MY_DB_SERVICE_PORT_SQL"] == "5432"
    assert env["MY_DB_PORT_5432_TCP"] == "tcp://10.96.0.9:5432"
    assert (env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"]) == ("10.96.0.1", "443")
    assert not any(name.startswith("H_") for name in env)
    without = environment(make_container(), services=[service])
    assert "MY_DB_SERVICE_HOST" not in without and "KUBERNETES_SERVICE_HOST" in without


def test_the_nodes_own_python_comes_first_on_the_path():
    assert search_path("/venv", "/tools").split(":")[0] == "/venv/bin"
    assert search_path("/venv", "/tools").split(":")[-1] == "/tools"
    assert search_path("/usr").split(":").count("/usr/bin") == 1


def test_proxy_variables_only_when_egress_is_by_proxy():
    assert proxy_environment(Egress()) == {}
    env = proxy_environment(Egress("http://10.88.0.1:3128"))
    assert env["https_proxy"] == env["HTTPS_PROXY"] == "http://10.88.0.1:3128"
    assert env["no_proxy"] == env["NO_PROXY"]
    bypassed = env["NO_PROXY"].split(",")
    assert {"localhost", "127.0.0.1", "10.88.0.0/16", "10.96.0.0/16", "10.96.0.1"} <= set(bypassed)
    assert {"kubernetes.default", "kubernetes.default.svc"} <= set(bypassed)
    assert {".svc", ".svc.cluster.local", ".cluster.local"} <= set(bypassed)


@pytest.mark.parametrize(
    ("variables", "cores", "threads"),
    [
        ({"WORLD_SIZE": "3"}, 2, "1"),
        ({"WORLD_SIZE": "2"}, 16, "8"),
        ({"PET_NNODES": "1:4"}, 16, "4"),
        ({"NUM_PROCESSES": "3"}, 2, "1"),
        ({"PADDLE_NNODES": "2"}, 16, "8"),
        ({"PET_NNODES": "2", "WORLD_SIZE": "8"}, 16, "2"),
        ({"WORLD_SIZE": "1"}, 16, None),
        ({}, 16, None),
        ({"WORLD_SIZE": "many"}, 16, None),
        ({"WORLD_SIZE": "4", "OMP_NUM_THREADS": "3"}, 16, None),
    ],
)
def test_ranks_share_the_cores(variables, cores, threads):
    assert thread_environment(variables, cores).get("OMP_NUM_THREADS") == threads
