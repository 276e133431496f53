"""Kills parts of a whole cluster at random moments under load, and stops at the first promise that it breaks.

    python -m tests.hostile.crash [POINTS] [--seed N]        # 500

At each point a random subset of control plane, operator, sandboxd, netd and shims is killed with SIGKILL; now and then
again while `up` is on its way, and now and then everything at once, sockets gone: a reboot. Meanwhile pods of all sizes
and exit codes run, Jobs and ConfigMaps are written, two watches resume from where they were.

Held against it:
    no acknowledged write is lost, and of an unacknowledged one at most the whole shows
    a watch delivers every change once and in order, across restarts
    no pod runs twice; a pod whose shim lived has its exit code, its phase, and its log to the last line
    Jobs complete; the cluster comes up; nothing is left of it after `down`

Prints one line of figures; exit code 1 with what was broken, the seed and the state directory, which then stays.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.processes import parent_of
from trainshed.client.client import Client
from trainshed.client.config import connect, load_kubeconfig
from trainshed.client.transport import TransportError
from trainshed.cluster.control import launcher
from trainshed.cluster.control.launcher import StartFailed
from trainshed.cluster.control.processes import cluster_processes
from trainshed.cluster.paths import StatePaths
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CONFIGMAPS, JOBS, PODS, Resource
from trainshed.sdk import local

NAMESPACE = "default"
SETTLE_SECONDS = 120.0
PODS_AT_ONCE = 8
DAEMONS = ("operator", "sandbox daemon", "network daemon")


class Violation(Exception):
    """A promise was broken."""


@dataclass
class Planned:
    """A pod that was asked for: what it must come to unless its shim is killed."""

    name: str
    lines: int
    code: int
    seconds: float
    uid: str = ""
    disturbed: bool = False

    def manifest(self, out: Path) -> Object:
        script = (
            f"echo {self.name} >> /out/starts-{self.name}; i=0;"
            f" while [ $i -lt {self.lines} ]; do echo line $i; i=$((i+1)); done; sleep {self.seconds}; exit {self.code}"
        )
        return {
            "metadata": {"name": self.name, "labels": {"app": "crash"}},
            "spec": pod_spec(script, out),
        }


def pod_spec(script: str, out: Path) -> Object:
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "volumes": [{"name": "out", "hostPath": {"path": str(out)}}],
        "containers": [
            {
                "name": "main",
                "image": "example.com/sh:1",
                "command": ["sh", "-c", script],
                "volumeMounts": [{"name": "out", "mountPath": "/out"}],
            }
        ],
    }


@dataclass
class Figures:
    """What was done and seen."""

    points: int = 0
    kills: int = 0
    reboots: int = 0
    pods: int = 0
    undisturbed: int = 0
    jobs: int = 0
    acknowledged: int = 0
    events: int = 0
    relists: int = 0
    ups: list[float] = field(default_factory=list)


class Cluster:
    """The cluster under attack, its processes, and a client that is made again with each control plane."""

    def __init__(self, root: Path, figures: Figures) -> None:
        self.paths = StatePaths(root / "home")
        self.figures = figures
        self.killed: set[int] = set()
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = connect(load_kubeconfig(self.paths.kubeconfig))
        return self._client

    async def up(self, interrupt: float | None = None) -> None:
        """Start it; with `interrupt`, kill what starts after that many seconds, and start it again."""
        if interrupt is not None:
            starting = asyncio.create_task(asyncio.to_thread(local.start, self.paths))
            await asyncio.sleep(interrupt)
            self.kill(self._control_planes())
            with contextlib.suppress(StartFailed):
                await starting
        began = time.monotonic()
        try:
            await asyncio.to_thread(local.start, self.paths)
        except StartFailed as error:
            raise Violation(f"the cluster does not come up: {error} ({error.hint})") from None
        self.figures.ups.append(time.monotonic() - began)
        await self.answers()

    async def answers(self) -> None:
        """Wait until the API answers."""
        await self.until("the API answers", lambda: self.client.raw_get("/readyz"))

    async def until(self, what: str, ask: Any) -> Any:
        """Return the first true result of `ask`, which may fail meanwhile. Raises Violation in the end."""
        deadline = time.monotonic() + SETTLE_SECONDS
        last: object = None
        while time.monotonic() < deadline:
            try:
                last = await ask()
                if last:
                    return last
            except (ApiError, TransportError, TimeoutError) as error:
                last = error
            await asyncio.sleep(0.1)
        raise Violation(f"waited {SETTLE_SECONDS} s until {what}; last: {last!r}")

    def processes(self) -> dict[str, list[int]]:
        """Return the pids by role."""
        found: dict[str, list[int]] = {}
        for process in cluster_processes(self.paths, launcher.running(self.paths)):
            found.setdefault(process.role, []).append(process.pid)
        found["control plane"] = self._control_planes()
        return found

    def _control_planes(self) -> list[int]:
        found = []
        for directory in Path("/proc").iterdir():
            if directory.name.isdigit():
                with contextlib.suppress(OSError):
                    command = (directory / "cmdline").read_bytes().split(b"\0")
                    if b"trainshed.cli.serve" in command and str(self.paths.root).encode() in command:
                        found.append(int(directory.name))
        return found

    def kill(self, pids: list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.killed.add(pid)
                self.figures.kills += 1

    def reboot(self) -> None:
        """End every process and forget what only a running system has."""
        for _ in range(3):  # a daemon may start another while we look
            self.kill([pid for pids in self.processes().values() for pid in pids])
            time.sleep(0.05)
        shutil.rmtree(self.paths.run)
        self.figures.reboots += 1

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()


class Writer:
    """Counts in a ConfigMap: what was acknowledged has to stay."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster, self._name = cluster, name
        self.acknowledged: dict[int, int] = {}
        """Revision → count."""

    async def run(self) -> None:
        count = 0
        revision = 0
        while True:
            await asyncio.sleep(0.01)
            client = self._cluster.client
            body: Object = {
                "metadata": {"name": self._name, "namespace": NAMESPACE},
                "data": {"count": str(count + 1)},
            }
            try:
                if revision:
                    body["metadata"]["resourceVersion"] = str(revision)
                    made = await client.update(CONFIGMAPS, body)
                else:
                    made = await client.create(CONFIGMAPS, body, namespace=NAMESPACE)
            except (TransportError, TimeoutError, ApiError) as error:
                found = await self._look()
                seen = int(found["data"]["count"]) if found else 0
                if seen not in (count, count + 1):
                    raise Violation(
                        f"{self._name}: {seen} is stored, {count} was acknowledged ({error})"
                    ) from None
                count, revision = seen, int(found["metadata"]["resourceVersion"]) if found else 0
                continue
            count, revision = count + 1, int(made["metadata"]["resourceVersion"])
            if self.acknowledged and revision <= max(self.acknowledged):
                raise Violation(f"{self._name}: revision {revision} after {max(self.acknowledged)}")
            self.acknowledged[revision] = count

    async def _look(self) -> Object | None:
        async def ask() -> tuple[Object | None]:
            try:
                return (await self._cluster.client.get(CONFIGMAPS, self._name, NAMESPACE),)
            except ApiError as error:
                if error.code == 404:
                    return (None,)
                raise

        (found,) = await self._cluster.until(f"{self._name} can be read", ask)
        return found  # type: ignore[no-any-return]


class Watcher:
    """Follows a kind from the revision it has seen last."""

    def __init__(self, cluster: Cluster, resource: Resource) -> None:
        self._cluster, self._resource = cluster, resource
        self.seen: dict[int, Object] = {}
        self.gaps: list[tuple[int, int]] = []
        self.at = 0

    async def run(self) -> None:
        while True:
            try:
                if not self.at:
                    page = await self._cluster.client.list(self._resource, namespace=NAMESPACE)
                    self.at = int(page.resource_version)
                await self._follow()
            except ApiError as error:
                if error.code == 410:
                    page = await self._cluster.client.list(self._resource, namespace=NAMESPACE)
                    self.gaps.append((self.at, int(page.resource_version)))
                    self.at = int(page.resource_version)
                    self._cluster.figures.relists += 1
            except (TransportError, TimeoutError):
                pass
            await asyncio.sleep(0.05)

    async def _follow(self) -> None:
        watch = self._cluster.client.watch(
            self._resource, namespace=NAMESPACE, resource_version=str(self.at), timeout_seconds=60
        )
        async with contextlib.aclosing(watch) as events:
            async for event in events:
                revision = int(event.object["metadata"]["resourceVersion"])
                if event.type == "BOOKMARK":
                    self.at = max(self.at, revision)
                    continue
                if revision <= self.at:
                    raise Violation(f"{self._resource.plural}: event {revision} after {self.at}")
                self.seen[revision] = event.object
                self.at = revision

    def missed(self, revision: int) -> bool:
        """Return whether a change should have been delivered and was not."""
        return revision not in self.seen and not any(low < revision <= high for low, high in self.gaps)


class Attack:
    """One run."""

    def __init__(self, root: Path, points: int, seed: int) -> None:
        self.figures = Figures()
        self.cluster = Cluster(root, self.figures)
        self.out = root / "out"
        self._points = points
        self._random = random.Random(seed)
        self._pods: dict[str, Planned] = {}
        self._jobs: list[str] = []
        self._number = 0
        self._stopping = False
        self._rebooting = False

    async def run(self) -> None:
        """Attack until all points are done or something is broken."""
        self.out.mkdir()
        self.out.chmod(0o777)
        await self.cluster.up()
        first = asyncio.get_running_loop().time()
        writers = [Writer(self.cluster, f"writer-{n}") for n in range(2)]
        watchers = [Watcher(self.cluster, CONFIGMAPS), Watcher(self.cluster, PODS)]
        for watcher in watchers:
            page = await self.cluster.client.list(PODS, namespace=NAMESPACE)
            watcher.at = int(page.resource_version)
        work = [asyncio.create_task(part.run()) for part in (*writers, *watchers)]
        load = asyncio.create_task(self._load())
        try:
            while self.figures.points < self._points:
                await self._point()
                if self.figures.points % 25 == 0:
                    print(
                        f"crash: {self.figures.points} points, {self.figures.pods} pods",
                        file=sys.stderr,
                        flush=True,
                    )
                for task in (*work, load):
                    if task.done():
                        task.result()
            self._stopping = True
            await load
            await self._settle()
            for task in work[: len(writers)]:
                task.cancel()
            newest = max(max(w.acknowledged) for w in writers)
            await self.cluster.until("the watch has caught up", lambda: _reached(watchers[0], newest))
        finally:
            for task in (*work, load):
                task.cancel()
            outcomes = await asyncio.gather(*work, load, return_exceptions=True)
            await self.cluster.close()
        for outcome in outcomes:
            if isinstance(outcome, Violation):
                raise outcome
        self._judge(writers, watchers[0])
        self.figures.events = sum(len(w.seen) for w in watchers)
        await self._down()
        assert asyncio.get_running_loop().time() > first

    async def _point(self) -> None:
        await asyncio.sleep(self._random.uniform(0.02, 0.4))
        self.figures.points += 1
        chance = self._random.random()
        if chance < 0.03:
            self._rebooting = True
            for planned in self._pods.values():
                planned.disturbed = True
            await asyncio.to_thread(self.cluster.reboot)
            self._rebooting = False
            await self.cluster.up()
            return
        processes = self.cluster.processes()
        targets = [pid for role in DAEMONS if self._random.random() < 0.3 for pid in processes.get(role, ())]
        shims = processes.get("shim", [])
        if self._random.random() < 0.4 and shims:
            chosen = self._random.sample(shims, min(len(shims), self._random.randrange(1, 4)))
            for pid in chosen:
                self._disturb(pid)
            targets += chosen
        down = self._random.random() < 0.45 or not targets
        if down:
            targets += processes["control plane"]
        self._random.shuffle(targets)
        self.cluster.kill(targets)
        if down:
            interrupt = self._random.uniform(0.0, 1.5) if self._random.random() < 0.25 else None
            await self.cluster.up(interrupt)

    def _disturb(self, pid: int) -> None:
        """Expect nothing any more of the pod of a shim, which is two processes; which one it is nobody may know yet."""
        family = {pid, _parent(pid)}
        for planned in self._pods.values():
            shim = self._shim_of(planned.uid)
            if not shim or family & {shim, _parent(shim)}:
                planned.disturbed = True

    def _shim_of(self, uid: str) -> int:
        try:
            return int(
                json.loads((self.cluster.paths.pods / uid / "sandbox" / "sandbox.json").read_bytes())["pid"]
            )
        except (OSError, ValueError, KeyError):
            return 0

    def _traces(self, uid: str) -> str:
        """Return what is on disk of a pod's sandbox, for the message of a violation."""
        directory = self.cluster.paths.pods / uid
        found = [*directory.glob("sandbox/sandbox.json"), *directory.glob("containers/*/*/state.json")]
        files = {str(path.relative_to(directory)): path.read_text() for path in found}
        return f"pod {uid}, on disk: {files}"

    async def _load(self) -> None:
        while not self._stopping:
            await asyncio.sleep(0.05)
            try:
                found = await self.cluster.client.list(PODS, namespace=NAMESPACE)
                await self._look_at(found.items)
                busy = sum(
                    (p.get("status") or {}).get("phase") in ("Pending", "Running") for p in found.items
                )
                if busy < PODS_AT_ONCE:
                    await self._make()
            except (ApiError, TransportError, TimeoutError):
                continue

    async def _make(self) -> None:
        self._number += 1
        draw = self._random
        if self._number % 15 == 0:
            name = f"job-{self._number}"
            self._jobs.append(name)
            template = {"spec": pod_spec("sleep 0.2", self.out), "metadata": {"labels": {"app": "job"}}}
            spec = {"completions": 2, "parallelism": 2, "backoffLimit": 1000, "template": template}
            await self.cluster.client.create(
                JOBS, {"metadata": {"name": name}, "spec": spec}, namespace=NAMESPACE
            )
            return
        planned = Planned(
            f"p{self._number}", draw.choice((1, 50, 1000)), draw.choice((0, 0, 0, 1, 7)), draw.uniform(0, 1.5)
        )
        planned.disturbed = self._rebooting
        self._pods[planned.name] = planned
        made = await self.cluster.client.create(PODS, planned.manifest(self.out), namespace=NAMESPACE)
        planned.uid = made["metadata"]["uid"]

    async def _look_at(self, found: list[Object]) -> None:
        """Judge the pods that are over, and delete them."""
        for pod in found:
            name, phase = pod["metadata"]["name"], (pod.get("status") or {}).get("phase")
            planned = self._pods.get(name)
            if (
                planned is None
                or phase not in ("Succeeded", "Failed")
                or pod["metadata"].get("deletionTimestamp")
            ):
                continue
            await self._judge_pod(planned, pod)
            await self.cluster.client.delete(PODS, name, NAMESPACE, grace_period_seconds=0)

    async def _judge_pod(self, planned: Planned, pod: Object) -> None:
        starts = self._starts(planned.name)
        if starts > 1:
            raise Violation(f"{planned.name} ran {starts} times")
        if not planned.disturbed and self._shim_of(pod["metadata"]["uid"]) not in self.cluster.killed:
            chunks = [chunk async for chunk in self.cluster.client.logs(planned.name, NAMESPACE)]
            log = b"".join(chunks).decode()
            state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
            expected = "".join(f"line {i}\n" for i in range(planned.lines))
            if state["exitCode"] != planned.code or starts != 1:
                raise Violation(
                    f"{planned.name}: {starts} starts, exit code {planned.code} expected: {pod['status']};"
                    f" {self._traces(pod['metadata']['uid'])}"
                )
            if log != expected:
                raise Violation(
                    f"{planned.name}: {len(log.splitlines())} of {planned.lines} lines of its log are left"
                )
            self.figures.undisturbed += 1
        self.figures.pods += 1
        del self._pods[planned.name]

    def _starts(self, name: str) -> int:
        try:
            return len((self.out / f"starts-{name}").read_text().splitlines())
        except FileNotFoundError:
            return 0

    async def _settle(self) -> None:
        """Wait until every pod is over and every Job complete."""

        async def over() -> bool:
            found = await self.cluster.client.list(PODS, namespace=NAMESPACE)
            await self._look_at(found.items)
            known = {pod["metadata"]["name"] for pod in found.items}
            # One whose creation never reached the server is nobody's.
            return not any(p.name in known for p in self._pods.values())

        async def complete() -> bool:
            jobs = {job["metadata"]["name"]: job for job in (await self._list_jobs())}
            done = [j for j in self._jobs if (jobs.get(j, {}).get("status") or {}).get("succeeded") == 2]
            self.figures.jobs = len(done)
            return all(j in done for j in self._jobs if j in jobs)

        await self.cluster.until("every pod is over", over)
        await self.cluster.until("every Job is complete", complete)

    async def _list_jobs(self) -> list[Object]:
        return (await self.cluster.client.list(JOBS, namespace=NAMESPACE)).items

    def _judge(self, writers: list[Writer], watcher: Watcher) -> None:
        for writer in writers:
            self.figures.acknowledged += len(writer.acknowledged)
            lost = [r for r in writer.acknowledged if watcher.missed(r)]
            if lost:
                raise Violation(f"the watch missed {len(lost)} acknowledged writes, the first at {lost[0]}")
            for revision, count in writer.acknowledged.items():
                seen = watcher.seen.get(revision)
                if seen is not None and seen["data"]["count"] != str(count):
                    raise Violation(
                        f"revision {revision} is {seen['data']['count']}, {count} was acknowledged"
                    )

    async def _down(self) -> None:
        await local.stop(self.cluster.paths)
        left = {role: pids for role, pids in self.cluster.processes().items() if pids}
        if left:
            raise Violation(f"left after down: {left}")


def _parent(pid: int) -> int:
    """Return the parent of a process; -pid when it is nobody's that could be another's, too."""
    parent = parent_of(pid)
    try:
        shim = parent and Path(f"/proc/{parent}/comm").read_text().startswith("trainshed-shim")
    except OSError:
        return -pid
    return parent if parent and shim else -pid


async def _reached(watcher: Watcher, revision: int) -> bool:
    return watcher.at >= revision


def crash(points: int, seed: int) -> str:
    """Return the line of figures. Raises Violation; the state directory then stays."""
    root = Path(tempfile.mkdtemp(prefix="ts-crash-"))
    attack = Attack(root, points, seed)
    began = time.monotonic()
    try:
        asyncio.run(attack.run())
    except Violation as violation:
        asyncio.run(local.stop(attack.cluster.paths))
        raise Violation(
            f"{violation}\n(seed {seed}, point {attack.figures.points}, state in {root})"
        ) from None
    except BaseException:
        asyncio.run(local.stop(attack.cluster.paths))
        raise
    asyncio.run(local.purge(attack.cluster.paths))
    shutil.rmtree(root)
    f = attack.figures
    return (
        f"crash: {f.points} points, {f.kills} kills, {f.reboots} reboots in {time.monotonic() - began:.0f} s;"
        f" {f.acknowledged} acknowledged writes, {f.events} events ({f.relists} relists), {f.pods} pods"
        f" ({f.undisturbed} in full), {f.jobs} Jobs; up {sum(f.ups) / len(f.ups):.1f} s, at most {max(f.ups):.1f} s;"
        " 0 violations"
    )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("points", type=int, nargs="?", default=500)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    arguments = parser.parse_args()
    try:
        print(crash(arguments.points, arguments.seed))
    except Violation as violation:
        print(f"crash: VIOLATION: {violation}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
