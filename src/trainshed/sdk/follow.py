"""Follows a job: mirrors it and its pods, merges their logs, ends when it is finished."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from trainshed.client.client import Client
from trainshed.client.informer import Informer
from trainshed.client.transport import TransportError
from trainshed.jobs.engine.constants import (
    ERR_RESOURCE_EXISTS,
    FAILED_VALIDATION,
    LABEL_JOB_NAME,
    POD_GROUP_UNSCHEDULABLE,
)
from trainshed.kube.meta.objects import Object, name_of, objects, section, status_of, uid_of
from trainshed.kube.meta.pods import is_active, is_finished
from trainshed.kube.meta.resources import EVENTS, PODS, Resource
from trainshed.kube.meta.times import time_or_none
from trainshed.sdk import state as jobstate
from trainshed.sdk.followview import Outcome, Snapshot, View
from trainshed.sdk.logformats import read
from trainshed.sdk.logs import Lines, follow_container, last_lines
from trainshed.sdk.progress import Progress, after, first_told
from trainshed.sdk.remedies import image_of_nothing
from trainshed.sdk.unnoticed import about_operator

_KEPT_LINES = 25
_SETTLE_SECONDS = 1.5
_GATHER_SECONDS = 0.25
"""How long replicas that wait for one reason are gathered before they are named; doubled each time."""
_UNNOTICED_SECONDS = 5.0
"""After how long without a condition a job's operator is asked after."""
_LOST_FAILURES = 3
"""After how many failed attempts the API server counts as gone."""
_OBSTACLES = ("FailedCreate", "FailedDelete", ERR_RESOURCE_EXISTS, POD_GROUP_UNSCHEDULABLE)
"""Reasons of events that say what the operator could not do."""
_DRAIN_SECONDS = 5.0
"""How long no log line may arrive, once the job is finished, until the logs count as stuck."""
_BEGINNING_SECONDS = 0.3
"""How long after the job's end nothing may happen to its pods until those count as stuck that have not begun."""
_OUTLIVING_SECONDS = 3.0
"""How long after the job's end lines are taken from pods that have not ended."""
_REFRESH_SECONDS = 0.125
"""How often a view is told of changes."""
_ATTEMPTS = 5
"""How often a request at the end of a job is tried: a job that is over is not reported as unreachable."""


API_LOST = "the API server does not answer; the job goes on, and so does the attempt to reach it"


class Follower:
    """Follows one job until it is finished or gone. With `tail`, logs start with so many last lines of each.

    `why_lost` says what it means that no API server answers.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        job: Object,
        view: View,
        *,
        tail: int | None = None,
        why_lost: Callable[[], str] = lambda: API_LOST,
    ) -> None:
        self._why_lost = why_lost
        metadata = job["metadata"]
        self._client = client
        self._view = view
        self._tail = tail
        self._name, self._namespace = metadata["name"], metadata["namespace"]
        self._uid = metadata["uid"]
        self._jobs = Informer(
            client, resource, namespace=self._namespace, field_selector=f"metadata.name={self._name}"
        )
        self._pods = Informer(
            client, PODS, namespace=self._namespace, label_selector=f"{LABEL_JOB_NAME}={self._name}"
        )
        self._job: Object | None = job
        self._seen_pods: dict[str, Object] = {}
        self._gone: set[str] = set()
        self._pods_changed = asyncio.Event()
        self._untold = Progress(epochs=jobstate.epochs(job))
        self._progress: dict[tuple[str, str], Progress] = {}
        self._own_inits = jobstate.init_containers(job)
        self._tails: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=_KEPT_LINES))
        self._streams: dict[tuple[str, str, int], asyncio.Task[None]] = {}
        self._streamed: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._advising: list[asyncio.Task[None]] = []
        self._obstructed = False
        self._told: set[str] = set()
        self._alike: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self._gathered: Counter[tuple[str, str]] = Counter()
        self._dirty, self._updated_at = False, time.monotonic()
        self._lines = 0
        self._events = Informer(
            client,
            EVENTS,
            namespace=self._namespace,
            field_selector=f"involvedObject.name={self._name},type=Warning",
        )
        self._finished = asyncio.Event()
        self._started_at = time.time()

    async def run(self) -> Outcome:
        """Return how the job ended. Cancelling it detaches: the job goes on."""
        self._jobs.add_handler(self._job_changed)
        self._pods.add_handler(self._pod_changed)
        self._events.add_handler(self._event_changed)
        parts = (self._jobs, self._pods, self._events)
        tasks = [asyncio.create_task(part.run()) for part in parts]
        tasks += [asyncio.create_task(self._explain_silence()), asyncio.create_task(self._refresh())]
        try:
            await self._finished.wait()
            await self._catch_up()
            await self._let_begin()
            await self._drain()
            await self._read_failure()
        finally:
            tasks += [*self._streams.values(), *self._advising]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._update()
        tails = {replica: list(lines) for replica, lines in self._tails.items()}
        return Outcome(self._job, self._pods_by_rank(), self._shown_progress(), tails)

    def _pods_by_rank(self) -> list[Object]:
        return jobstate.rank_order(list(self._seen_pods.values()))

    def _shown_progress(self) -> Progress:
        """Return the progress of the first replica, in the order of ranks, that tells any."""
        ranks = {jobstate.replica_name(pod): rank for rank, pod in enumerate(self._pods_by_rank())}
        known = sorted(self._progress.items(), key=lambda item: ranks.get(item[0][0], len(ranks)))
        return first_told(progress for _, progress in known) or self._untold

    async def _catch_up(self) -> None:
        """See every pod as it is now: the job's end may be known before its pods' is, or before any pod is."""
        selector = f"{LABEL_JOB_NAME}={self._name}"
        for attempt in range(_ATTEMPTS):
            try:
                pods = await self._client.list(PODS, self._namespace, label_selector=selector)
            except TransportError:
                await asyncio.sleep(2**attempt / 4)
                continue
            for pod in pods.items:
                self._pod_changed("MODIFIED", None, pod)
            return

    async def _let_begin(self) -> None:
        """Return when no pod is still being started, or it takes too long: say so then.

        A short job's master may be through before its workers have begun.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_OUTLIVING_SECONDS):
                while self._starting():
                    self._pods_changed.clear()
                    await asyncio.wait_for(self._pods_changed.wait(), _BEGINNING_SECONDS)
        if starting := self._starting():
            names = jobstate.joined_by_type(map(jobstate.replica_name, starting))
            command = f"kubectl logs -n {self._namespace} {name_of(starting[0])}"
            self._tell(f"{names} had not begun when the job ended: {command}")

    def _starting(self) -> list[Object]:
        """Return the pods that have not begun and will."""
        there = [pod for pod in self._pods_by_rank() if name_of(pod) not in self._gone and is_active(pod)]
        return [pod for pod in there if not jobstate.started_instances(pod)]

    async def _drain(self) -> None:
        """Return when the logs of all pods that have ended have come to their end, however long they are; say so
        if one stands still. A pod that outlives its job is given a moment for its last lines."""
        while pending := [task for task in self._streams.values() if not task.done()]:
            before = self._lines
            all_live = not any(self._has_ended(pod) for pod, _ in self._unread())
            if all_live:
                await asyncio.wait(pending, timeout=_OUTLIVING_SECONDS)
                break
            await asyncio.wait(pending, timeout=_DRAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if self._lines == before and not any(task.done() for task in pending):
                break
        unread = self._unread()
        self._tell_unread(
            "the end of the log of {} did not arrive", [w for w in unread if self._has_ended(w[0])]
        )
        alive = [which for which in unread if is_active(self._seen_pods[which[0]])]
        self._tell_unread("{} outlives the job" if len(alive) == 1 else "{} outlive the job", alive)

    def _tell_unread(self, text: str, logs: list[tuple[str, str]]) -> None:
        """Say something of logs, given as pods and containers, and the command that shows them."""
        command = f"kubectl logs -n {self._namespace}"
        if len(logs) == 1:
            ((pod, container),) = logs
            self._tell(f"{text.format(pod)}: {command} {pod} -c {container}")
        elif logs:
            names = jobstate.joined_by_type(jobstate.replica_name(self._seen_pods[pod]) for pod, _ in logs)
            self._tell(f"{text.format(names)}: {command} -l {LABEL_JOB_NAME}={self._name} --prefix --tail=-1")

    def _unread(self) -> list[tuple[str, str]]:
        """Return pod and container of each log that has not come to its end."""
        return [which for which, task in self._streamed.items() if not task.done()]

    def _has_ended(self, pod: str) -> bool:
        return is_finished(self._seen_pods[pod])

    async def _read_failure(self) -> None:
        """Take the last lines of what failed first from its log: they may be others than arrived last."""
        found = jobstate.first_failure(list(self._seen_pods.values()))
        if self._job is None or jobstate.condition(self._job, "Failed") is None or found is None:
            return
        pod, ended = found
        previous = not any(
            section(entry, "state").get("terminated")
            for kind in ("initContainerStatuses", "containerStatuses")
            for entry in status_of(pod).get(kind) or ()
            if entry["name"] == ended["container"]
        )
        lines = await last_lines(
            self._client,
            pod["metadata"]["name"],
            self._namespace,
            str(ended["container"]),
            _KEPT_LINES,
            previous=previous,
        )
        if lines is not None:
            self._tails[jobstate.replica_name(pod)] = deque(lines, _KEPT_LINES)

    async def _refresh(self) -> None:
        """Tell the view what changed, all at once and not more often than it can be read."""
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            if self._dirty or time.monotonic() - self._updated_at >= 1.0:  # a clock is shown
                self._update()

    async def _explain_silence(self) -> None:
        """Say what is the matter when nothing happens: no operator, or no API server."""
        lost, asked = "", False
        while True:
            await asyncio.sleep(1.0)
            if self._jobs.failures >= _LOST_FAILURES:
                why = await asyncio.to_thread(self._why_lost)  # which may be known only when all has stopped
                if why != lost:
                    self._view.event(why)
                lost = why
            elif lost:
                self._view.event("the API server answers again")
                lost = ""
            waited = time.time() - self._started_at
            unnoticed = self._job is not None and not status_of(self._job).get("conditions")
            if unnoticed and not self._obstructed and not asked and not lost and waited > _UNNOTICED_SECONDS:
                asked = True
                self._view.event(await about_operator(self._client))

    def _job_changed(self, change: str, old: Object | None, new: Object) -> None:
        if new["metadata"]["uid"] != self._uid:
            return
        if change == "DELETED":
            self._job = None
            self._finished.set()
            return
        self._job = new
        for condition in status_of(new).get("conditions") or ():
            if condition["status"] == "True":
                self._tell(
                    f"{condition['type']}: {condition.get('message', '')}", condition["lastUpdateTime"]
                )
        if jobstate.is_finished(new):
            self._finished.set()
        self._show()

    def _event_changed(self, change: str, old: Object | None, new: Object) -> None:
        """Say why the operator cannot do something. Conditions say the rest."""
        about = section(new, "involvedObject")
        reason = str(new.get("reason", ""))
        obstacle = reason.startswith(_OBSTACLES) or reason.endswith(FAILED_VALIDATION)
        if about.get("uid") == self._uid and change != "DELETED" and obstacle and not self._finished.is_set():
            self._obstructed = True
            self._tell(f"{reason}: {new.get('message', '')}")

    def _pod_changed(self, change: str, old: Object | None, new: Object) -> None:
        owners = new["metadata"].get("ownerReferences") or ()
        if not any(owner["uid"] == self._uid for owner in owners):
            return
        name, replica = new["metadata"]["name"], jobstate.replica(new)
        self._seen_pods[name] = new
        (self._gone.add if change == "DELETED" else self._gone.discard)(name)
        self._pods_changed.set()
        if replica.detail:
            asyncio.get_running_loop().call_later(_SETTLE_SECONDS, self._explain, name, replica)
        if change != "DELETED":
            for container, attempt in jobstate.started_instances(new, self._own_inits):
                self._stream(new, container, attempt, replica.name)
        self._show()

    def _explain(self, pod: str, replica: jobstate.Replica) -> None:
        """Say why a replica waits, if it still does: most reasons are over at once."""
        seen = self._seen_pods.get(pod)
        if (
            seen is not None
            and not self._finished.is_set()
            and jobstate.replica(seen).detail == replica.detail
        ):
            self._gather(replica)
            if replica.restarts:
                self._advising.append(asyncio.create_task(self._advise(seen, replica)))

    def _gather(self, replica: jobstate.Replica) -> None:
        """Say the same of several replicas in one line: the longer they keep coming, the more of them together."""
        if (known := f"{replica.name} {replica.state}: {replica.detail}") in self._told:
            return
        self._told.add(known)
        why = replica.state, replica.detail
        alike = self._alike[why]
        alike.append(replica.name)
        if len(alike) == 1:
            seconds = _GATHER_SECONDS * 2 ** min(self._gathered[why], 6)
            asyncio.get_running_loop().call_later(seconds, self._tell_gathered, why)

    def _tell_gathered(self, why: tuple[str, str]) -> None:
        names = jobstate.joined_by_type(self._alike.pop(why))
        self._gathered[why] += 1
        if not self._finished.is_set():
            self._view.event(f"{names} {why[0]}: {why[1]}")

    async def _advise(self, pod: Object, replica: jobstate.Replica) -> None:
        """Say what may help a pod that fails again and again: its job may never end by itself."""
        entries = objects(status_of(pod), "containerStatuses")
        codes = [section(entry, "lastState", "terminated").get("exitCode") for entry in entries]
        said = "\n".join(self._tails[replica.name])
        advice = await image_of_nothing(self._client, pod, said, next(filter(None, codes), None))
        if advice:
            self._tell(advice)

    def _stream(self, pod: Object, container: str, attempt: int, replica: str) -> None:
        name, uid = name_of(pod), uid_of(pod)
        if (uid, container, attempt) in self._streams:
            return
        if attempt:
            self._tell(f"{replica} restarts, attempt {attempt + 1}", f"{uid}/{attempt}")
        self._progress[replica, container] = self._untold  # of an attempt that is over, nothing counts
        shown = f"{replica}/{container}" if container in self._own_inits else replica
        self._streams[uid, container, attempt] = self._streamed[name, container] = asyncio.create_task(
            follow_container(
                self._client,
                name,
                self._namespace,
                container,
                partial(self._received, replica, container, shown),
                frame=partial(self._framed, replica, container, shown),
                tail=self._tail,
            )
        )

    async def _received(self, replica: str, container: str, shown: str, lines: Lines) -> None:
        self._lines += len(lines.texts)
        self._tails[replica].extend(lines.texts[-_KEPT_LINES:])
        progress = self._progress[replica, container]
        for text, stamp in zip(lines.texts, lines.stamps):
            if (reading := read(text)) is not None:
                progress = after(progress, reading, time_or_none(stamp) or time.time())
        self._progress[replica, container] = progress
        self._dirty = True
        await self._view.lines(shown, lines.texts)

    def _framed(self, replica: str, container: str, shown: str, text: str) -> None:
        if (reading := read(text)) is not None:
            self._progress[replica, container] = after(
                self._progress[replica, container], reading, time.time()
            )
        self._dirty = True
        self._view.frame(shown, text)

    def _tell(self, text: str, when: str = "") -> None:
        """Say something once."""
        if text + when not in self._told:
            self._told.add(text + when)
            self._view.event(text)

    def _show(self) -> None:
        self._dirty = True

    def _update(self) -> None:
        self._dirty, self._updated_at = False, time.monotonic()
        if self._job is None:
            return
        replicas = [jobstate.replica(pod) for pod in self._pods_by_rank()]
        started = time_or_none(section(self._job, "status").get("startTime"))
        self._view.update(Snapshot(self._job, replicas, self._shown_progress(), started or self._started_at))
