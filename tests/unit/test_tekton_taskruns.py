"""What a TaskRun does next, as plain data: its pod, its steps, its attempts."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.unit.tekton_world import START, TaskWorld, reason, stored, task_run
from trainshed.kube.meta.objects import Object
from trainshed.tekton import steps


def words(**results: str) -> list[Object]:
    return [{"key": key, "value": value, "type": 1} for key, value in results.items()]


def internal(key: str, value: str) -> Object:
    return {"key": key, "value": value, "type": 3}


def told(container: Object) -> Any:
    """Return what a container's entrypoint is told."""
    command = container["command"]
    return json.loads(base64.b64decode("".join(command[command.index("-S") + 2 : command.index("--")])))


def world(*given: Any, spec: Any = None, **task: Any) -> TaskWorld:
    return TaskWorld(task_run({"taskSpec": {"steps": list(given), **task}, **(spec or {})}))


HELLO = {"name": "hello", "image": "busybox", "script": "echo hello"}


def test_a_task_becomes_a_pod_and_its_end_the_end_of_the_run() -> None:
    it = world(HELLO, {"image": "busybox", "command": ["true"], "args": ["x"]})
    it.step()
    assert reason(it.run) == ("Unknown", "Pending")
    assert it.pod["metadata"]["name"] == "run-pod"
    assert it.pod["metadata"]["labels"]["tekton.dev/taskRun"] == "run"
    first, second = it.pod["spec"]["containers"]
    assert (first["name"], second["name"]) == ("step-hello", "step-unnamed-1")
    assert told(first)["script"] == "#!/bin/sh\nset -e\necho hello"
    assert (told(second)["index"], second["args"]) == (1, ["true", "x"])
    it.running()
    it.step()
    assert reason(it.run) == ("Unknown", "Running")
    it.ended(("hello", 0, []), ("unnamed-1", 0, []))
    it.step()
    assert reason(it.run) == ("True", "Succeeded")
    assert [s["terminationReason"] for s in it.status["steps"]] == ["Completed", "Completed"]
    assert it.step().status is None


def test_a_step_may_not_write_to_the_directories_of_others() -> None:
    it = world(HELLO, {"image": "busybox", "script": "true"}, sidecars=[{"name": "s", "image": "busybox"}])
    it.step()
    inside = [
        {
            m["mountPath"]: (m["name"], m.get("readOnly", False))
            for m in c["volumeMounts"]
            if "-run-" in m["name"]
        }
        for c in it.pod["spec"]["containers"]
    ]
    first, second = "tekton-internal-run-0", "tekton-internal-run-1"
    assert inside == [
        {"/tekton/run/0": (first, False), "/tekton/run/1": (second, True)},
        {"/tekton/run/0": (first, True), "/tekton/run/1": (second, False)},
    ]
    assert {first, second} < {v["name"] for v in it.pod["spec"]["volumes"]}
    alone = world(HELLO)
    alone.step()
    assert not [v for v in alone.pod["spec"]["volumes"] if "-run-" in v["name"]], "nobody else is there"


def test_sidecars_do_not_hold_up_the_end() -> None:
    it = world(
        HELLO, sidecars=[{"name": "db", "image": "db", "readinessProbe": {"exec": {"command": ["true"]}}}]
    )
    it.step()
    (sidecar,) = it.pod["spec"]["initContainers"]
    assert (sidecar["name"], sidecar["restartPolicy"]) == ("sidecar-db", "Always")
    assert sidecar["startupProbe"] == sidecar["readinessProbe"]
    it.ended(("hello", 0, []), phase="Running")
    it.step()
    assert reason(it.run) == ("True", "Succeeded")


def test_results_have_their_declared_types() -> None:
    declared = [{"name": "s"}, {"name": "l", "type": "array"}, {"name": "o", "properties": {"k": {}}}]
    it = world(HELLO, results=declared)
    it.step()
    assert told(it.pod["spec"]["containers"][0])["results"] == ["s", "l", "o"]
    it.ended(("hello", 0, words(s='["x"]', l='["a", 1]', o='{"k": "v"}')))
    it.step()
    assert it.status["results"] == [
        {"name": "s", "type": "string", "value": '["x"]'},
        {"name": "l", "type": "array", "value": ["a", "1"]},
        {"name": "o", "type": "object", "value": {"k": "v"}},
    ]


def test_a_result_of_another_type_fails_the_run() -> None:
    it = world(HELLO, results=[{"name": "l", "type": "array"}])
    it.step()
    it.ended(("hello", 0, words(l="no")))
    it.step()
    assert reason(it.run) == ("False", "TaskRunValidationFailed")
    assert 'expected to be "array"' in it.status["conditions"][0]["message"]


def test_a_result_may_be_that_of_a_step() -> None:
    it = world(
        {**HELLO, "results": [{"name": "r"}]}, results=[{"name": "out", "value": "$(steps.hello.results.r)"}]
    )
    it.step()
    it.ended(("hello", 0, [{"key": "r", "value": "7", "type": 4}]))
    it.step()
    assert it.status["results"][0]["value"] == "7"
    assert it.status["steps"][0]["results"][0]["name"] == "r"


def test_a_step_that_fails_is_named_and_those_after_it_are_skipped() -> None:
    it = world(HELLO, {"name": "b", "image": "x", "command": ["true"]})
    it.step()
    it.ended(
        ("hello", 3, [internal("StartedAt", "2026-01-01T00:00:00Z")]),
        ("b", 1, [internal("Reason", "Skipped")]),
    )
    it.step()
    assert reason(it.run) == ("False", "StepFailed")
    assert it.status["conditions"][0]["message"] == '"step-hello" exited with code 3'
    assert [s["terminationReason"] for s in it.status["steps"]] == ["Error", "Skipped"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ('Pod "r-pod" is invalid: spec: no', ("False", "PodCreationFailed")),
        (
            'pods "r-pod" is forbidden: violates PodSecurity "baseline:latest": host',
            ("False", "PodAdmissionFailed"),
        ),
        (
            'pods "r-pod" is forbidden: exceeded quota: q, requested: pods=1',
            ("Unknown", "ExceededResourceQuota"),
        ),
    ],
)
def test_a_pod_that_is_refused_ends_the_run_unless_it_may_be_taken_later(
    said: str, expected: tuple[str, str]
) -> None:
    it = TaskWorld(task_run({"taskSpec": {"steps": [HELLO]}}), refusal=said)
    plan = it.step()
    assert reason(it.run) == expected
    assert said in it.status["conditions"][0]["message"]
    assert plan.requeue_after == (60 if expected[0] == "Unknown" else None)
    assert not it.pods


def test_parameters_stand_in_the_pods_template() -> None:
    spec = {
        "params": [{"name": "node", "value": "fast"}],
        "podTemplate": {"nodeSelector": {"type": "$(params.node)-$(params.disk)"}},
        "taskSpec": {"params": [{"name": "node"}, {"name": "disk", "default": "ssd"}], "steps": [HELLO]},
    }
    it = TaskWorld(task_run(spec))
    it.step()
    assert it.pod["spec"]["nodeSelector"] == {"type": "fast-ssd"}


def test_a_failure_that_the_pipeline_ignores_says_so() -> None:
    run = task_run({"taskSpec": {"steps": [HELLO]}})
    run["metadata"]["annotations"] = {"pipeline.tekton.dev/pipeline-task-on-error": "continue"}
    it = TaskWorld(run)
    it.step()
    it.ended(("hello", 3, []))
    it.step()
    assert reason(it.run) == ("False", "FailureIgnored")


def test_a_step_may_fail_and_its_exit_code_is_told() -> None:
    it = world({**HELLO, "onError": "continue"})
    it.step()
    assert told(it.pod["spec"]["containers"][0])["onError"] == "continue"
    it.ended(("hello", 0, [internal("ExitCode", "9")]))
    it.step()
    assert reason(it.run) == ("True", "Succeeded")
    (step,) = it.status["steps"]
    assert (step["terminationReason"], step["terminated"]["exitCode"]) == ("Continued", 9)


def test_each_attempt_has_a_pod_of_its_own_until_none_is_left() -> None:
    it = world({**HELLO, "args": ["$(context.task.retry-count)"]}, spec={"retries": 1})
    it.step()
    it.ended(("hello", 1, []))
    it.step()
    assert reason(it.run) == ("Unknown", "ToBeRetried")
    it.step()
    assert it.pod["metadata"]["name"] == "run-pod-retry1"
    assert it.pod["spec"]["containers"][0]["args"] == ["1"]
    it.ended(("hello", 1, []))
    it.step()
    assert reason(it.run) == ("False", "StepFailed")
    assert it.status["retriesStatus"][0]["podName"] == "run-pod"


@pytest.mark.parametrize("how", ["cancelled", "late"])
def test_the_pod_goes_before_the_run_is_over(how: str) -> None:
    it = world(HELLO, spec={"timeout": "10s"})
    it.step()
    it.running()
    assert it.step().requeue_after == 10
    if how == "cancelled":
        it.run["spec"]["status"] = "TaskRunCancelled"
    else:
        it.now = START + 10
    assert it.step().status is None
    assert it.pod["metadata"]["deletionTimestamp"]
    it.step()
    assert reason(it.run)[0] == "Unknown"
    it.pods.clear()
    it.step()
    wanted = "TaskRunCancelled" if how == "cancelled" else "TaskRunTimeout"
    assert reason(it.run) == ("False", wanted)
    assert it.status["steps"][0]["terminated"]["reason"] == wanted
    if how == "late":
        assert it.status["conditions"][0]["message"] == 'TaskRun "run" failed to finish within "10s"'


def test_a_pod_that_was_seen_and_is_gone_has_failed_and_is_not_run_again() -> None:
    it = world(HELLO)
    it.step()
    it.running()
    it.step()
    it.pods.clear()
    it.step()
    assert reason(it.run) == ("False", "PodDeleted")
    assert not it.pods


@pytest.mark.parametrize(
    "state",
    [
        {"waiting": {"reason": "CreateContainerConfigError", "message": "secret not found"}},
        {"terminated": {"reason": "StartError", "exitCode": 126, "message": "no such file"}},
    ],
)
def test_what_can_never_start_is_not_waited_for(state: Any) -> None:
    it = world(HELLO, {"name": "b", "image": "x", "command": ["true"]})
    it.step()
    it.pod["status"] = {
        "phase": "Running",
        "containerStatuses": [
            {"name": "step-hello", "state": state},
            {"name": "step-b", "state": {"running": {}}},
        ],
    }
    it.step()
    assert reason(it.run)[0] == "False"
    assert it.pod["metadata"]["deletionTimestamp"]


def test_a_pod_of_a_run_that_is_over_is_deleted_even_if_that_was_forgotten() -> None:
    it = world(HELLO)
    it.step()
    it.running()
    it.run = {
        **it.run,
        "status": {"conditions": [{"type": "Succeeded", "status": "False", "reason": "StepFailed"}]},
    }
    assert it.step().status is None
    assert it.pod["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(
    ("spec", "word", "text"),
    [
        ({"taskRef": {"name": "t"}}, "TaskRunResolutionFailed", '"t" not found'),
        ({"taskRef": {"resolver": "hub"}}, "TaskRunResolutionFailed", "resolver hub"),
        ({"taskSpec": {"steps": []}}, "TaskRunValidationFailed", "no steps"),
        ({"taskSpec": {"steps": [HELLO, HELLO]}}, "TaskRunValidationFailed", "more than once"),
        *(
            ({"taskSpec": {"steps": [{**HELLO, "script": s}]}}, "TaskRunValidationFailed", f"{s}: artifacts")
            for s in (
                "$(artifacts.path)",
                "$(step.artifacts.path)",
                "$(steps.a.outputs)",
                "$(tasks.t.outputs.x)",
            )
        ),
        ({"taskSpec": {"steps": [HELLO], "params": [{"name": "p"}]}}, "TaskRunValidationFailed", "[p]"),
        ({"taskSpec": {"steps": [HELLO], "workspaces": [{"name": "w"}]}}, "TaskRunValidationFailed", '"w"'),
        (
            {
                "taskSpec": {"steps": [HELLO], "params": [{"name": "p", "enum": ["a"]}]},
                "params": [{"name": "p", "value": "b"}],
            },
            "InvalidParamValue",
            "enum",
        ),
        (
            {"taskSpec": {"steps": [{"name": "s", "ref": {"name": "act"}}]}},
            "TaskRunResolutionFailed",
            '"act" not found',
        ),
    ],
)
def test_what_cannot_run_says_why(spec: Any, word: str, text: str) -> None:
    it = TaskWorld(task_run(spec))
    it.step()
    assert reason(it.run) == ("False", word)
    assert text in it.status["conditions"][0]["message"]
    assert not it.pods


def test_a_step_action_is_the_steps_program() -> None:
    action = stored(
        {
            "metadata": {"name": "act"},
            "spec": {
                "image": "tool",
                "params": [{"name": "who", "default": "you"}, {"name": "all", "type": "array"}],
                "command": ["greet", "$(params.who)", "$(params.all[*])"],
            },
        }
    )
    given = [{"name": "who", "value": "$(params.me)"}, {"name": "all", "value": "$(steps.a.results.l[*])"}]
    run = task_run(
        {
            "taskSpec": {
                "params": [{"name": "me", "default": "I"}],
                "steps": [{"name": "s", "ref": {"name": "act"}, "params": given}],
            }
        }
    )
    it = TaskWorld(run, actions={"act": action})
    it.step()
    assert it.pod["spec"]["containers"][0]["args"] == ["greet", "I", "$(steps.a.results.l[*])"]


def test_words_that_are_no_results_stay_a_message() -> None:
    assert steps.failure(
        {"spec": {}, "status": {"phase": "Failed", "message": "node lost"}}
    ) == steps.Failure("Failed", "node lost")
