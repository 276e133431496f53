"""The status that the node writes: phases, container states, conditions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.node_builders import NOW, ended, make_container, make_pod, running, seen
from trainshed.cluster.node.pod.lifecycle import DEADLINE
from trainshed.cluster.node.pod.observed import Health, Problem, SeenContainer, StatusContext, Verdict
from trainshed.cluster.node.pod.status import changed, container_id, pod_status
from trainshed.cluster.node.pod.statuswriter import is_bland
from trainshed.kube.builtin.parts.pod.qos import qos_class
from trainshed.kube.meta.times import format_time

CONTEXT = StatusContext("10.88.0.1", lambda image: "trainshed://host-root")
SIDECAR = make_container("side", restartPolicy="Always")


def status(pod, known, now=NOW):
    return pod_status(pod, known, now, CONTEXT)


def condition(written, kind):
    return next(c for c in written["conditions"] if c["type"] == kind)


def test_a_pod_that_is_being_created():
    written = status(make_pod(), seen(None))
    assert written["phase"] == "Pending"
    (container,) = written["containerStatuses"]
    assert container["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert (container["ready"], container["restartCount"], container["image"]) == (False, 0, "img:1")
    assert condition(written, "PodReadyToStartContainers")["status"] == "False"
    assert condition(written, "Ready")["message"] == "containers with unready status: [main]"
    assert is_bland(written)
    assert status(make_pod(init=(make_container("i"),)), seen(None))["containerStatuses"][0]["state"] == {
        "waiting": {"reason": "PodInitializing"}
    }


def test_a_running_pod():
    written = status(make_pod(), seen(main=running()))
    assert (written["phase"], written["podIP"], written["podIPs"]) == (
        "Running",
        "10.88.0.7",
        [{"ip": "10.88.0.7"}],
    )
    assert (written["hostIP"], written["hostIPs"]) == ("10.88.0.1", [{"ip": "10.88.0.1"}])
    (container,) = written["containerStatuses"]
    assert container["state"] == {"running": {"startedAt": format_time(NOW - 5)}}
    assert container["ready"] and container["started"]
    assert container["containerID"].startswith("trainshed://")
    assert all(c["status"] == "True" for c in written["conditions"])
    assert not is_bland(written)


def test_who_a_container_runs_as_and_what_it_has_mounted():
    mounts = [
        {"name": "v", "mountPath": "/rw"},
        {"name": "v", "mountPath": "/ro", "readOnly": True},
        {"name": "v", "mountPath": "/below", "readOnly": True, "recursiveReadOnly": "IfPossible"},
    ]
    pod = make_pod(make_container("main", volumeMounts=mounts))
    (waits,) = status(pod, seen(None))["containerStatuses"]
    assert "user" not in waits
    assert waits["volumeMounts"] == [
        {"name": "v", "mountPath": "/rw"},
        {"name": "v", "mountPath": "/ro", "readOnly": True, "recursiveReadOnly": "Disabled"},
        {"name": "v", "mountPath": "/below", "readOnly": True, "recursiveReadOnly": "Enabled"},
    ]
    (runs,) = status(pod, seen(main=running(user=(1000, 5, 5, 7))))["containerStatuses"]
    assert runs["user"] == {"linux": {"uid": 1000, "gid": 5, "supplementalGroups": [5, 7]}}
    assert runs["volumeMounts"] == waits["volumeMounts"]


def test_a_completed_and_a_failed_pod():
    done = status(make_pod(restartPolicy="Never"), seen(main=ended(0)))
    assert done["phase"] == "Succeeded"
    assert done["containerStatuses"][0]["state"]["terminated"] == {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": format_time(NOW - 5),
        "finishedAt": format_time(NOW - 1),
        "containerID": container_id(make_pod(), "main", 0),
    }
    assert condition(done, "Ready")["reason"] == "PodCompleted"
    failed = status(make_pod(restartPolicy="Never"), seen(main=ended(3, message="oops")))
    assert failed["phase"] == "Failed"
    terminated = failed["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"], terminated["message"]) == (3, "Error", "oops")
    assert condition(failed, "Ready")["reason"] == "PodFailed"


@pytest.mark.parametrize("reason", ["OOMKilled", "StartError"])
def test_a_known_reason_is_told(reason):
    written = status(make_pod(restartPolicy="Never"), seen(main=ended(137, reason=reason)))
    assert written["containerStatuses"][0]["state"]["terminated"]["reason"] == reason


def test_a_crash_loop():
    attempts = (ended(1, 0), ended(1, 1, end=NOW - 4))
    written = status(make_pod(), seen(main=attempts))
    (container,) = written["containerStatuses"]
    assert written["phase"] == "Running"
    assert container["state"]["waiting"] == {
        "reason": "CrashLoopBackOff",
        "message": "back-off 10s restarting failed container=main pod=web_default(u1)",
    }
    assert container["lastState"]["terminated"]["exitCode"] == 1
    assert container["restartCount"] == 1
    restarted = status(make_pod(), seen(main=(ended(1, 0), running(1))))
    assert restarted["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1


def test_a_container_that_cannot_be_made_keeps_the_pod_pending():
    problem = Problem("CreateContainerConfigError", 'configmap "x" not found', NOW + 3)
    written = status(make_pod(), seen(main=SeenContainer(problem=problem)))
    assert written["phase"] == "Pending"
    assert written["containerStatuses"][0]["state"]["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": 'configmap "x" not found',
    }
    assert not is_bland(written)


def test_init_containers_and_initialized():
    pod = make_pod(init=(make_container("i1"), make_container("i2")))
    written = status(pod, seen(i1=running()))
    assert written["phase"] == "Pending"
    assert condition(written, "Initialized") == {
        "type": "Initialized",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": format_time(NOW),
        "reason": "ContainersNotInitialized",
        "message": "containers with incomplete status: [i1 i2]",
    }
    assert is_bland(written) and is_bland(status(pod, seen(i1=ended(), i2=running())))
    assert not is_bland(status(pod, seen(i1=ended(1)))) and not is_bland(status(pod, seen(i1=running(1))))
    written = status(pod, seen(i1=ended(), i2=ended(), main=running()))
    assert not is_bland(written)
    assert condition(written, "Initialized")["status"] == "True"
    assert [s["ready"] for s in written["initContainerStatuses"]] == [True, True]
    never = make_pod(init=(make_container("i1"),), restartPolicy="Never")
    assert status(never, seen(i1=ended(1)))["phase"] == "Failed"


def test_a_pod_whose_init_containers_run_again_is_pending_and_was_initialized():
    """In a new sandbox (pkg/kubelet/kubelet_pods.go, `getPhase`)."""
    pod = make_pod(init=(make_container("i1"),))
    again = (ended(past=True), running(1))
    written = status(pod, seen(i1=again, main=ended(137, past=True)))
    assert (written["phase"], condition(written, "Initialized")["status"]) == ("Pending", "True")
    over = (ended(past=True), ended(number=1))
    written = status(pod, seen(i1=over, main=ended(137, past=True)))
    assert written["phase"] == "Running"


def test_a_sidecar_does_not_decide_the_phase():
    pod = make_pod(init=(SIDECAR,), restartPolicy="Never")
    assert status(pod, seen(side=running(), main=running()))["phase"] == "Running"
    assert status(pod, seen(side=running(), main=ended(0)))["phase"] == "Running", "until all has ended"
    assert status(pod, seen(side=ended(137), main=ended(0)))["phase"] == "Succeeded"
    unready = seen(side=SeenContainer((running(),), Health(started=True)), main=running())
    assert condition(status(pod, unready), "Ready")["message"].endswith("[side]")


def test_past_the_deadline_the_pod_fails_once_nothing_runs():
    condemned = {"verdict": DEADLINE}
    assert status(make_pod(), seen(main=running(), pod=condemned))["phase"] == "Running"
    written = status(make_pod(), seen(main=ended(143), pod=condemned))
    assert (written["phase"], written["reason"]) == ("Failed", "DeadlineExceeded")


def test_a_pod_that_was_refused_has_no_containers_that_wait():
    pod = make_pod(init=(make_container("i1"),))
    written = status(pod, seen(None, pod={"verdict": Verdict("SysctlForbidden", "Pod was rejected: no")}))
    assert (written["phase"], written["reason"]) == ("Failed", "SysctlForbidden")
    assert written["containerStatuses"] == written["initContainerStatuses"] == []


def test_a_deleted_pod_ends_in_a_final_phase():
    metadata = {"deletionTimestamp": format_time(NOW)}
    assert status(make_pod(metadata=metadata), seen(main=ended(143)))["phase"] == "Failed"
    assert status(make_pod(metadata=metadata), seen(main=ended(0)))["phase"] == "Succeeded"
    assert status(make_pod(metadata=metadata), seen(main=running()))["phase"] == "Running"


def test_readiness_gates_hold_ready_back_only():
    pod = make_pod(readinessGates=[{"conditionType": "example.com/up"}])
    written = status(pod, seen(main=running()))
    assert condition(written, "Ready")["reason"] == "ReadinessGatesNotReady"
    assert condition(written, "ContainersReady")["status"] == "True"
    assert condition(written, "Ready")["message"] == (
        'corresponding condition of pod readiness gate "example.com/up" does not exist.'
    )
    down = {"type": "example.com/up", "status": "False"}
    closed = status({**pod, "status": {"conditions": [down]}}, seen(main=running()))
    assert condition(closed, "Ready")["message"] == (
        'the status of pod readiness gate "example.com/up" is not "True", but False'
    )
    up = {"type": "example.com/up", "status": "True"}
    opened = status({**pod, "status": {"conditions": [up]}}, seen(main=running()))
    assert condition(opened, "Ready")["status"] == "True"
    assert up in opened["conditions"], "conditions of others are kept"


@given(st.floats(0, 1e6))
def test_the_same_state_later_writes_nothing_new(later):
    """Transition times stay: an unchanged pod is not written again."""
    known = seen(main=(ended(1, 0), running(1)))
    first = status(make_pod(), known)
    second = status(make_pod(status=first), known, NOW + later)
    assert not changed(first, second)


def test_an_end_that_somebody_else_wrote_stays():
    evicted = make_pod(status={"phase": "Failed", "reason": "Evicted", "message": "low on memory"})
    written = status(evicted, seen(main=ended(0)))
    assert (written["phase"], written["reason"]) == ("Failed", "Evicted")


@pytest.mark.parametrize(
    "resources, expected",
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"requests": {"nvidia.com/gpu": "1"}}, "BestEffort"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
            "Burstable",
        ),
        (
            {"limits": {"cpu": "1000m", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
            "Guaranteed",
        ),
    ],
)
def test_quality_of_service(resources, expected):
    assert qos_class(make_pod(make_container(resources=resources))["spec"]) == expected


def test_ephemeral_containers_have_a_status_of_their_own_and_no_say():
    pod = make_pod(ephemeralContainers=[make_container("dbg")], restartPolicy="Always")
    written = status(pod, seen(main=running()))
    assert written["ephemeralContainerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert condition(written, "Ready")["status"] == "True"
    (debugging,) = status(pod, seen(main=running(), dbg=running()))["ephemeralContainerStatuses"]
    assert "running" in debugging["state"] and debugging["ready"] is False and "started" not in debugging
    (over,) = status(pod, seen(main=running(), dbg=ended(3)))["ephemeralContainerStatuses"]
    assert over["state"]["terminated"]["exitCode"] == 3 and over["restartCount"] == 0, "it never comes back"
    assert "ephemeralContainerStatuses" not in status(make_pod(), seen(main=running()))
