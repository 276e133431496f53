"""Decisions about one pod: tables for each rule, and a random world in which they must converge."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.node_builders import NOW, ended, make_container, make_pod, running, seen
from trainshed.cluster.node.pod.lifecycle import (
    DEADLINE,
    BeginStop,
    Condemn,
    CreateSandbox,
    DeleteObject,
    RemovePod,
    Signal,
    StartContainer,
    StopSandbox,
    backoff_seconds,
    next_steps,
)
from trainshed.cluster.node.pod.observed import (
    SIGKILL,
    SIGTERM,
    Attempt,
    Health,
    Problem,
    SeenContainer,
    SeenPod,
    Stopping,
)
from trainshed.kube.meta.plan import Event
from trainshed.kube.meta.times import format_time

DELETING = {"deletionTimestamp": format_time(NOW), "deletionGracePeriodSeconds": 30}
SIDECAR = make_container("side", restartPolicy="Always")


def actions(pod, known, now=NOW):
    return next_steps(pod, known, now).actions


def test_a_new_pod_gets_its_sandbox_then_its_containers_together():
    pod = make_pod(make_container("a"), make_container("b"))
    assert actions(pod, seen(None)) == (CreateSandbox(),)
    assert actions(pod, seen()) == (StartContainer("a", 0), StartContainer("b", 0))
    assert actions(pod, seen(a=running(), b=running())) == ()


def test_init_containers_run_one_by_one():
    pod = make_pod(init=(make_container("i1"), make_container("i2")))
    assert actions(pod, seen()) == (StartContainer("i1", 0),)
    assert actions(pod, seen(i1=running())) == ()
    assert actions(pod, seen(i1=ended())) == (StartContainer("i2", 0),)
    assert actions(pod, seen(i1=ended(), i2=ended())) == (StartContainer("main", 0),)


def test_an_ephemeral_container_is_started_once_and_holds_nothing_up():
    debugger = make_container("dbg")
    pod = make_pod(init=(make_container("i1"),), ephemeralContainers=[debugger])
    assert actions(pod, seen()) == (StartContainer("dbg", 0), StartContainer("i1", 0))
    assert actions(pod, seen(i1=running(), dbg=running())) == ()
    assert actions(pod, seen(i1=running(), dbg=ended(1))) == (), "not again, whatever the restart policy"
    over = make_pod(ephemeralContainers=[debugger], restartPolicy="Never")
    assert actions(over, seen(main=ended(), dbg=running())) == (BeginStop("dbg", 0, 30.0),), (
        "it ends with the pod"
    )


def test_one_that_is_to_see_another_s_processes_waits_for_it():
    pod = make_pod(ephemeralContainers=[make_container("dbg", targetContainerName="main")])
    assert actions(pod, seen()) == (StartContainer("main", 0),)
    assert actions(pod, seen(main=running())) == (StartContainer("dbg", 0),)
    refused = SeenContainer(problem=Problem("ErrImagePull", "no", NOW + 5))
    assert actions(pod, seen(main=running(), dbg=refused)) == ()


def test_a_failed_init_container_is_tried_again_unless_never():
    init = (make_container("i1"),)
    assert actions(make_pod(init=init), seen(i1=ended(1))) == (StartContainer("i1", 1),)
    never = make_pod(init=init, restartPolicy="Never")
    assert actions(never, seen(i1=ended(1))) == (StopSandbox(),)


def test_init_containers_run_again_in_a_new_sandbox():
    """As those of a kubelet after a reboot: what they made may be gone with the old one."""
    init = (make_container("i1"), make_container("i2"))
    pod = make_pod(init=init)
    lost = {"i1": ended(past=True), "i2": ended(past=True), "main": ended(137, past=True)}
    plan = next_steps(pod, seen(None, **lost), NOW)
    assert plan.actions == (CreateSandbox(),)
    assert [event.reason for event in plan.events] == ["SandboxChanged"]
    assert actions(pod, seen(**lost)) == (StartContainer("i1", 1),)
    lost["i1"] = (ended(past=True), ended(number=1))
    assert actions(pod, seen(**lost)) == (StartContainer("i2", 1),)
    lost["i2"] = (ended(past=True), ended(1, number=1, end=NOW, earlier=True))
    assert actions(pod, seen(**lost)) == (StartContainer("i2", 2),), "tried again"
    lost["i2"] = (ended(past=True), ended(number=1))
    assert actions(pod, seen(**lost)) == (StartContainer("main", 1),)
    never = make_pod(init=init, restartPolicy="Never")
    begun = {"i1": ended(past=True)}
    assert actions(never, seen(**begun)) == (StartContainer("i2", 0),), "what ended there has ended"


def test_a_sidecar_holds_the_others_until_it_has_started():
    pod = make_pod(init=(SIDECAR, make_container("i2")))
    waiting = SeenContainer((running(),), Health(started=False))
    assert actions(pod, seen(side=waiting)) == ()
    assert actions(pod, seen(side=running())) == (StartContainer("i2", 0),)
    # Restarted while the main container runs, even under restartPolicy Never.
    never = make_pod(init=(SIDECAR,), restartPolicy="Never")
    assert actions(never, seen(side=ended(1), main=running())) == (StartContainer("side", 1),)


def test_sidecars_stop_after_the_main_container():
    pod = make_pod(init=(SIDECAR,), restartPolicy="Never")
    (stop,) = actions(pod, seen(side=running(), main=ended()))
    assert isinstance(stop, BeginStop) and stop.name == "side"
    deleted = make_pod(init=(SIDECAR,), metadata=DELETING)
    (stop,) = actions(deleted, seen(side=running(), main=running()))
    assert stop.name == "main"


def test_sidecars_share_the_grace_period_of_the_pod():
    """One after the other while some of it is left; then all that still run have two seconds together."""
    pod = make_pod(init=(make_container("s1", restartPolicy="Always"), SIDECAR), metadata=DELETING)
    main = SeenContainer((ended(137, end=NOW - 10),), stopping=Stopping(0, NOW - 20, 30.0, terminated=True))
    begun = seen(s1=running(), side=running(), main=main)
    assert actions(pod, begun) == (BeginStop("side", 0, 10.0),)

    def side(since: float, grace: float, **fields: bool) -> SeenContainer:
        stopping = Stopping(0, since, grace, terminated=True, **fields)
        return SeenContainer((running(),), Health(started=True), stopping=stopping)

    ignoring = seen(s1=running(), side=side(NOW, 10.0), main=main)
    assert actions(pod, ignoring, NOW + 9) == ()
    assert next_steps(pod, ignoring, NOW + 9).requeue_after == 1
    assert actions(pod, ignoring, NOW + 10) == (Signal("side", SIGKILL), BeginStop("s1", 0, 2.0))
    late = seen(s1=side(NOW + 10, 2.0), side=side(NOW, 10.0, killed=True), main=main)
    assert actions(pod, late, NOW + 11) == ()
    assert actions(pod, late, NOW + 12) == (Signal("s1", SIGKILL),)


def test_sidecars_have_the_whole_grace_period_when_the_pod_ends_by_itself():
    pod = make_pod(init=(SIDECAR,), restartPolicy="Never")
    earlier = SeenContainer((ended(137, end=NOW - 90),), stopping=Stopping(0, NOW - 100, 30.0))
    pod["spec"]["containers"].append(make_container("other"))
    known = seen(side=running(), main=earlier, other=ended(0, end=NOW))
    assert actions(pod, known) == (BeginStop("side", 0, 30.0),), "the kill of the first was no end of the pod"


@pytest.mark.parametrize(
    "policy, code, restarts",
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Never", 0, False),
        ("Never", 1, False),
    ],
)
def test_restart_policy(policy, code, restarts):
    pod = make_pod(restartPolicy=policy)
    expected = (StartContainer("main", 1),) if restarts else (StopSandbox(),)
    assert actions(pod, seen(main=ended(code))) == expected


def test_backoff_doubles_to_five_minutes_and_resets_after_ten():
    history: list[Attempt] = []
    delays = []
    clock = 0.0
    for number in range(9):
        history.append(Attempt(number, clock, clock + 1, 1))
        delays.append(backoff_seconds(history))
        clock += 1 + delays[-1]
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300, 300]
    history.append(Attempt(9, clock, clock + 600, 1))
    assert backoff_seconds(history) == 300
    history.append(Attempt(10, clock, clock + 601, 1))
    assert backoff_seconds(history) == 0


def test_backoff_starts_over_with_the_node_agent():
    history = [Attempt(n, 20.0 * n, 20.0 * n + 1, 137, earlier=True) for n in range(4)]
    assert backoff_seconds(history) == 0
    history.append(Attempt(4, 100.0, 101.0, 137))
    assert backoff_seconds(history) == 10


@given(
    st.lists(st.tuples(st.floats(0, 5000), st.floats(0, 5000), st.integers(0, 255)), min_size=1, max_size=30)
)
def test_backoff_is_within_bounds(runs):
    clock, history = 0.0, []
    for number, (gap, length, code) in enumerate(runs):
        history.append(Attempt(number, clock + gap, clock + gap + length, code))
        clock += gap + length
    assert 0 <= backoff_seconds(history) <= 300


def test_a_crash_loop_wakes_when_the_backoff_is_over():
    pod = make_pod()
    attempts = (ended(1, 0), ended(1, 1, end=NOW - 4))
    plan = next_steps(pod, seen(main=attempts), NOW)
    assert plan.actions == () and plan.requeue_after == 6
    assert actions(pod, seen(main=attempts), NOW + 6) == (StartContainer("main", 2),)


def test_a_problem_waits_for_its_retry():
    problem = Problem("CreateContainerConfigError", 'configmap "x" not found', NOW + 3)
    known = seen(main=SeenContainer(problem=problem))
    assert next_steps(make_pod(), known, NOW).requeue_after == 3
    assert actions(make_pod(), known, NOW + 3) == (StartContainer("main", 0),)


def test_deletion_step_by_step():
    pod = make_pod(metadata=DELETING)
    begun = next_steps(pod, seen(main=running()), NOW)
    assert begun.actions == (BeginStop("main", 0, 30.0),)
    assert begun.events == (Event("Normal", "Killing", "Stopping container main"),)

    def at(stopping, now=NOW):
        return next_steps(pod, seen(main=SeenContainer((running(),), stopping=stopping)), now)

    stopping = Stopping(0, NOW, 30.0)
    assert at(stopping).actions == (Signal("main", SIGTERM),)
    stopping = msgspec.structs.replace(stopping, terminated=True)
    assert at(stopping).actions == () and at(stopping).requeue_after == 30
    assert at(stopping, NOW + 30).actions == (Signal("main", SIGKILL),)
    stopping = msgspec.structs.replace(stopping, killed=True)
    assert at(stopping, NOW + 31).actions == ()
    assert actions(pod, seen(main=ended(137))) == (StopSandbox(),)
    assert actions(pod, seen(main=ended(137), pod={"stopped": True})) == (DeleteObject(),)
    assert actions(pod, seen(main=ended(137), pod={"stopped": True, "deleted": True})) == ()
    assert actions(pod, seen(main=ended(137), pod={"stopped": True, "gone": True})) == (RemovePod(),)


def test_a_pre_stop_hook_delays_the_signal_up_to_the_grace_period():
    pod = make_pod(metadata=DELETING)

    def at(hook, now, **fields):
        stopping = Stopping(0, NOW, 30.0, hook=hook, **fields)
        return next_steps(pod, seen(main=SeenContainer((running(),), stopping=stopping)), now)

    assert at("running", NOW + 1).actions == () and at("running", NOW + 1).requeue_after == 29
    assert at("done", NOW + 1).actions == (Signal("main", SIGTERM),)
    assert at("running", NOW + 30).actions == (Signal("main", SIGTERM),)
    assert at("running", NOW + 30, terminated=True).requeue_after == 2


def test_a_second_delete_shortens_the_grace_period():
    metadata = {**DELETING, "deletionGracePeriodSeconds": 2}
    stopping = Stopping(0, NOW, 30.0, terminated=True)
    known = seen(main=SeenContainer((running(),), stopping=stopping))
    assert actions(make_pod(metadata=metadata), known, NOW + 2) == (Signal("main", SIGKILL),)


def test_a_deleted_pod_that_never_started_is_deleted_at_once():
    assert actions(make_pod(metadata=DELETING), seen(None)) == (DeleteObject(),)


def test_the_active_deadline_condemns():
    pod = make_pod(activeDeadlineSeconds=60, status={"startTime": format_time(NOW - 60)})
    assert actions(pod, seen(main=running())) == (Condemn(DEADLINE),)
    early = next_steps(pod, seen(main=running()), NOW - 10)
    assert early.actions == () and early.requeue_after == 10
    condemned = seen(main=running(), pod={"verdict": DEADLINE})
    assert isinstance(actions(pod, condemned)[0], BeginStop)


def test_a_finished_pod_is_not_started_again():
    for phase in ("Succeeded", "Failed"):
        assert actions(make_pod(status={"phase": phase}), seen(None)) == ()


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_another_image_restarts_the_container_whatever_the_policy(policy):
    pod = make_pod({**make_container(), "image": "new:1"}, restartPolicy=policy)
    known = SeenContainer((Attempt(0, NOW - 60, image="old:1"),))
    plan = next_steps(pod, SeenPod(NOW - 60, "10.0.0.2", containers={"main": known}), NOW)
    assert plan.actions == (BeginStop("main", 0, 30.0),)
    assert plan.events == (
        Event("Normal", "Killing", "Container main definition changed, will be restarted"),
    )
    over = Attempt(0, NOW - 60, finished_at=NOW, exit_code=143, image="old:1", outdated=True)
    again = SeenPod(NOW - 60, "10.0.0.2", containers={"main": SeenContainer((over,))})
    assert actions(pod, again) == (StartContainer("main", 1),)
    second = SeenContainer((over, Attempt(1, NOW, image="new:1")))
    assert actions(pod, SeenPod(NOW - 60, "10.0.0.2", containers={"main": second})) == ()


def test_what_ended_by_itself_before_its_image_changed_stays_ended():
    pod = make_pod({**make_container(), "image": "new:1"}, make_container("other"), restartPolicy="Never")
    over = SeenContainer((Attempt(0, NOW - 60, finished_at=NOW, exit_code=0, image="old:1"),))
    known = SeenPod(NOW - 60, "10.0.0.2", containers={"main": over, "other": SeenContainer((running(),))})
    assert actions(pod, known) == ()


def test_a_failed_liveness_probe_stops_the_container_with_its_own_grace():
    container = make_container(livenessProbe={"exec": {}, "terminationGracePeriodSeconds": 5})
    sick = SeenContainer(
        (running(),), Health(failure="Container main failed liveness probe, will be restarted")
    )
    plan = next_steps(make_pod(container), seen(main=sick), NOW)
    assert plan.actions == (BeginStop("main", 0, 5.0),)
    assert "liveness" in plan.events[0].message


class World:
    """A runtime and an API that obey actions; containers end when the test says so."""

    def __init__(self, pod):
        self.pod, self.now, self.policy = pod, NOW, pod["spec"]["restartPolicy"]
        self.state = SeenPod(first_seen=NOW)
        self.started: list[tuple[str, int]] = []
        self.removed = False

    def set(self, name, **fields):
        known = self.state.container(name)
        containers = {**self.state.containers, name: msgspec.structs.replace(known, **fields)}
        self.state = msgspec.structs.replace(self.state, containers=containers)

    def end(self, name, code):
        known = self.state.container(name)
        last = msgspec.structs.replace(known.attempts[-1], finished_at=self.now, exit_code=code)
        self.set(name, attempts=(*known.attempts[:-1], last), stopping=None)

    def lose_sandbox(self):
        for name, known in self.state.containers.items():
            if known.running:
                self.end(name, 137)
            past = tuple(msgspec.structs.replace(a, past=True) for a in self.state.container(name).attempts)
            self.set(name, attempts=past)
        self.state = msgspec.structs.replace(self.state, ip=None)

    def is_initialized(self):
        newest = self.state.container("i1").newest
        return newest is not None and newest.exit_code == 0 and not newest.past

    def obey(self, action):
        match action:
            case CreateSandbox():
                assert self.state.ip is None and not self.state.stopped
                self.state = msgspec.structs.replace(self.state, ip="10.88.0.9")
            case StartContainer(name, attempt):
                known = self.state.container(name)
                assert not known.running and (name, attempt) not in self.started
                assert self.state.ip is not None and not self.state.stopped
                assert name in ("i1", "side") or self.is_initialized() or self.policy == "Never"
                self.started.append((name, attempt))
                self.set(
                    name, attempts=(*known.attempts, Attempt(attempt, self.now)), health=Health(True, True)
                )
            case BeginStop(name, attempt, grace):
                self.set(name, stopping=Stopping(attempt, self.now, grace))
            case Signal(name, signal):
                stopping = self.state.container(name).stopping
                assert stopping is not None
                if signal == SIGTERM:
                    self.set(name, stopping=msgspec.structs.replace(stopping, terminated=True))
                else:
                    self.end(name, 137)
            case Condemn(verdict):
                self.state = msgspec.structs.replace(self.state, verdict=verdict)
            case StopSandbox():
                assert not any(c.running for c in self.state.containers.values())
                self.state = msgspec.structs.replace(self.state, stopped=True)
            case DeleteObject():
                assert not any(c.running for c in self.state.containers.values())
                self.state = msgspec.structs.replace(self.state, deleted=True, gone=True)
            case RemovePod():
                self.removed = True

    def settle(self, order):
        """Obey until nothing is to be done now."""
        for _ in range(100):
            plan = next_steps(self.pod, self.state, self.now)
            if not plan.actions or self.removed:
                return None if plan.requeue_after is None else self.now + plan.requeue_after
            for action in sorted(plan.actions, key=lambda a: order.random()):
                self.obey(action)
        raise AssertionError(f"does not settle: {plan.actions}")


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["i1", "side", "a", "b", "sandbox"]), st.sampled_from([0, 1, 137]), st.floats(0, 700)
    ),
    max_size=25,
)


@given(EVENTS, st.sampled_from(["Always", "OnFailure", "Never"]), st.booleans(), st.randoms())
def test_any_history_of_exits_converges_to_a_removed_pod(events, policy, forced, order):
    """Whatever ends in whatever order: no attempt runs twice, init containers come first in each sandbox, and a deleted
    pod ends with nothing running and everything removed."""
    pod = make_pod(
        make_container("a"), make_container("b"), init=(make_container("i1"), SIDECAR), restartPolicy=policy
    )
    world = World(pod)
    for name, code, pause in events:
        world.settle(order)
        world.now += pause
        if name == "sandbox":
            world.lose_sandbox()
        elif world.state.container(name).running:
            world.end(name, code)
        for main in ("a", "b"):
            if world.state.container(main).attempts:
                first = world.state.container("i1").attempts
                assert any(attempt.exit_code == 0 for attempt in first)
    world.settle(order)
    if forced:
        world.state = msgspec.structs.replace(world.state, gone=True)
    else:
        world.pod = {**pod, "metadata": {**pod["metadata"], **DELETING}}
    for _ in range(10):
        wake_at = world.settle(order)
        if world.removed:
            break
        assert wake_at is not None, "nothing to wait for, and not removed"
        world.now = max(world.now, wake_at)
    assert world.removed
    assert not any(c.running for c in world.state.containers.values())
    for name in ("i1", "side", "a", "b"):
        numbers = [number for started, number in world.started if started == name]
        assert numbers == list(range(len(numbers)))
