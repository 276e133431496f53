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
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.hostile.crash_cluster import NAMESPACE, Cluster, Figures, Planned, Violation, pod_spec, shim_of
from tests.hostile.crash_load import Watcher, Writer, reached
from trainshed.client.transport import TransportError
from trainshed.kube.meta.errors import ApiError
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import CONFIGMAPS, JOBS, PODS
from trainshed.sdk import local

PODS_AT_ONCE = 8
DAEMONS = ("operator", "sandbox daemon", "network daemon")


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
            await self.cluster.until("the watch has caught up", lambda: reached(watchers[0], newest))
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
                planned.disturbed = planned.rebooted = True
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
        family = {pid, shim_of(pid)}
        for planned in self._pods.values():
            shim = self._shim_of(planned.uid)
            if not shim or family & {shim, shim_of(shim)}:
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
        planned.disturbed = planned.rebooted = self._rebooting
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
        ends = [one["state"]["terminated"] for one in pod["status"].get("containerStatuses", ())]
        if wrong := [end for end in ends if (end["exitCode"], end["reason"]) not in planned.ends()]:
            raise Violation(f"{planned.name}: no end of a pod that was {planned}: {wrong}")
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
