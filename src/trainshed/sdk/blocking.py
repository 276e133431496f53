"""The same cluster and jobs for callers that wait: scripts and notebooks. Every call returns when it is done.

Works inside a running event loop, such as that of a notebook. Handlers are called in the caller's thread. A
connection that was not closed is closed when its cluster is collected, or at the end of the process.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from trainshed.client.transport import TransportError
from trainshed.kube.meta.errors import ApiError
from trainshed.sdk.apply import Applied
from trainshed.sdk.check import Verdict
from trainshed.sdk.cluster import AsyncCluster
from trainshed.sdk.errors import UserError
from trainshed.sdk.job import AsyncJob, JobView, LineHandler, NoticeHandler, Seen, hand_out
from trainshed.sdk.jobs import Event, LogLine
from trainshed.sdk.local import ClusterStatus
from trainshed.sdk.manifests import Source
from trainshed.sdk.portal import portal
from trainshed.sdk.progress import Progress
from trainshed.sdk.summary import Success


class Job(JobView):
    """One training job. Made by `Cluster.job`, `jobs` and `run`.

    Its facts are those that were seen last, by `refresh`, `wait`, `progress` or `run`. A notebook shows it as a table,
    looked at when it is shown: state, replicas, progress, last lines.

    Example:
        from trainshed import Cluster

        job = Cluster().run("job.yaml", wait=False)
        for line in job.logs(follow=True):
            print(line)
        print(job.state, [(replica.name, replica.state) for replica in job.replicas])
        job.delete()
    """

    def __init__(self, cluster: Cluster, job: AsyncJob) -> None:
        self._cluster = cluster  # keeps its connection open
        self._job = job

    @property
    def _seen(self) -> Seen:  # type: ignore[override]  # read only: the asynchronous twin writes it
        return self._job._seen

    def refresh(self) -> Self:
        """Look at the job and its pods again; return the job.

        Raises:
            ApiError: 404 when the job is gone.
        """
        portal().call(self._job.refresh())
        return self

    def progress(self) -> Progress:
        """Return how far the job is by what its first replica that tells has printed: epoch, loss, accuracy."""
        return portal().call(self._job.progress())

    def logs(
        self, replica: str | None = None, *, tail: int | None = None, follow: bool = False
    ) -> Iterator[LogLine]:
        """Yield what the replicas have printed: of one, such as `worker-0`, or of all in the order of their ranks.

        Args:
            replica: name of a replica or of its pod.
            tail: only the last so many lines of each.
            follow: go on with new lines, in the order of their arrival, until the job is finished. Lines wait in
                memory until they are read.

        Raises:
            UserError: the job has no such replica.
        """
        return portal().iterate(self._job.logs(replica, tail=tail, follow=follow))

    def wait(
        self,
        timeout: float | None = None,
        *,
        check: bool = True,
        on_line: LineHandler | None = None,
        on_notice: NoticeHandler | None = None,
    ) -> Self:
        """Wait until the job is finished; return it.

        Args:
            timeout: how many seconds to wait at most; the job goes on after that.
            check: raise when the job has failed.
            on_line: called with each line that a replica prints, e.g. `print`.
            on_notice: called with what happens: a condition, a restart, why a replica waits.

        Raises:
            JobFailed: with the replica that failed first and its last lines.
            TimeoutError: the job was not finished in time.
            UserError: the job was deleted meanwhile.
        """
        with contextlib.closing(portal().iterate(self._job._follow(timeout=timeout))) as items:
            for item in items:
                hand_out(item, on_line, on_notice)
        self._job._conclude(check)
        return self

    def result(self) -> Success:
        """Return what the succeeded job produced: time, accuracy, loss, and checkpoints on claims of this machine.

        Raises:
            UserError: the job has not succeeded.
        """
        return portal().call(self._job.result())

    def events(self) -> list[Event]:
        """Return the events about the job and its pods, the oldest first."""
        return portal().call(self._job.events())

    def suspend(self) -> Self:
        """Suspend the job: its pods are deleted, the job stays. Raises UserError when it is finished."""
        portal().call(self._job.suspend())
        return self

    def resume(self) -> Self:
        """Resume the suspended job: its pods are created again. Raises UserError when it is finished."""
        portal().call(self._job.resume())
        return self

    def delete(self, *, wait: bool = True) -> None:
        """Delete the job and its pods; with `wait`, return when they are gone. Claims stay.

        Raises:
            ApiError: 404 when the job is gone already.
            UserError: it is still there after a minute.
        """
        portal().call(self._job.delete(wait=wait))

    def _repr_html_(self) -> str:
        # What cannot be looked at (the cluster is down, the job is gone) is shown as it was seen last.
        with contextlib.suppress(ApiError, TransportError, UserError):
            portal().call(self._job._look())
        return super()._repr_html_()


class Cluster:
    """The local cluster or, with `context` or `kubeconfig`, another one. Connects when it is first used.

    Example:
        from trainshed import Cluster

        with Cluster() as cluster:
            print(cluster.up().server)
            for verdict in cluster.check("job.yaml"):
                assert verdict.accepted, verdict.refusal
            cluster.apply("job.yaml")
            job = cluster.job("mnist").wait(timeout=60)
            print([(event.reason, event.message) for event in job.events()])
            print([job.name for job in cluster.jobs(all_namespaces=True)])
            job.delete()
    """

    def __init__(
        self,
        *,
        context: str | None = None,
        kubeconfig: str | None = None,
        namespace: str | None = None,
        home: str | None = None,
    ) -> None:
        """Say which cluster; nothing is started or asked yet.

        Args:
            context: a context of the kubeconfig.
            kubeconfig: a file; without it what `KUBECONFIG` names, or `~/.kube/config`.
            namespace: where objects go that do not say; without it that of the context.
            home: state directory of the local cluster; without it `$TRAINSHED_HOME`, or the usual place.
        """
        self._cluster = AsyncCluster(context=context, kubeconfig=kubeconfig, namespace=namespace, home=home)
        self._closing = weakref.finalize(self, _close, self._cluster)

    def up(self, *, nodes: int = 0, port: int = 0) -> ClusterStatus:
        """Start the local cluster, if it is not up, and return what runs.

        Args:
            nodes: how many virtual nodes to show, which share this machine; 0 keeps those of last time.
            port: where on 127.0.0.1 the API listens; 0 keeps the last or takes a free one.

        Raises:
            StartFailed: it does not come up; the hint says what to do.
            StateError: the state directory cannot be used.
            UserError: this is not the local cluster.
        """
        return portal().call(self._cluster.up(nodes=nodes, port=port))

    def down(self, *, purge: bool = False) -> None:
        """Stop the local cluster and every pod; with `purge`, also delete all state: jobs, logs, volumes.

        Raises:
            StateError: the state directory cannot be used.
            TimeoutError: the control plane does not end.
            UserError: this is not the local cluster, or something cannot be deleted.
        """
        portal().call(self._cluster.down(purge=purge))

    def status(self) -> ClusterStatus:
        """Return what runs, and where; of a cluster elsewhere, whether it answers and which version it has."""
        return portal().call(self._cluster.status())

    def apply(self, manifests: Source) -> list[Applied]:
        """Apply manifests: all of them or, when one is refused by the dry run that goes first, none.

        Args:
            manifests: a file or directory, the text itself, an object as a dict; or several of them.

        Raises:
            ApiError: what the server refused, with the field path.
            UserError: no manifest, or a kind that the server does not have.
        """
        return portal().call(self._cluster.apply(manifests))

    def check(self, manifests: Source) -> list[Verdict]:
        """Return a verdict on each object, changing nothing: what is refused, and what would go wrong.

        Raises:
            UserError: no manifest.
        """
        return portal().call(self._cluster.check(manifests))

    def run(
        self,
        manifests: Source,
        *,
        wait: bool = True,
        timeout: float | None = None,
        on_line: LineHandler | None = None,
        on_notice: NoticeHandler | None = None,
    ) -> Job:
        """Apply manifests with one training job in them and wait until it is finished; return the job.

        The local cluster is started when it is not up. A job of that name that is finished is replaced, so that it
        trains again. The other arguments are those of `Job.wait`; with `wait=False` the job is only applied.

        Raises:
            JobFailed: with the replica that failed first and its last lines.
            ApiError: what the server refused, with the field path. Then nothing was applied.
            TimeoutError: the job was not finished in time; it goes on.
            UserError: no training job, or more than one; no manifest; a kind that the server does not have.
        """
        job = Job(self, portal().call(self._cluster.run(manifests, wait=False)))
        return job.wait(timeout, on_line=on_line, on_notice=on_notice) if wait else job

    def jobs(self, namespace: str | None = None, *, all_namespaces: bool = False) -> list[Job]:
        """Return the training jobs of a namespace, or of all, by namespace and name."""
        found = portal().call(self._cluster.jobs(namespace, all_namespaces=all_namespaces))
        return [Job(self, job) for job in found]

    def job(self, name: str, kind: str | None = None, *, namespace: str | None = None) -> Job:
        """Return the training job of that name; `kind` is needed where kinds share it.

        Raises:
            UserError: there is no such job, or no such kind.
        """
        return Job(self, portal().call(self._cluster.job(name, kind, namespace=namespace)))

    def close(self) -> None:
        """Close the connection. The cluster runs on; a later call connects anew."""
        portal().call(self._cluster.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._cluster).replace("AsyncCluster", "Cluster", 1)


def run(
    manifests: Source,
    *,
    wait: bool = True,
    timeout: float | None = None,
    on_line: LineHandler | None = None,
    on_notice: NoticeHandler | None = None,
    context: str | None = None,
    kubeconfig: str | None = None,
    namespace: str | None = None,
) -> Job:
    """Run a training job on the local cluster, or on another one: `Cluster(...).run(...)`. Return the job.

    Raises:
        JobFailed: with the replica that failed first and its last lines.
        ApiError: what the server refused, with the field path. Then nothing was applied.
        TimeoutError: the job was not finished in time; it goes on.
        UserError: no training job, or more than one; no manifest; a kind that the server does not have.

    Example:
        from trainshed import run

        job = run("job.yaml", on_line=print)
        print(job.result().accuracy)
    """
    cluster = Cluster(context=context, kubeconfig=kubeconfig, namespace=namespace)
    return cluster.run(manifests, wait=wait, timeout=timeout, on_line=on_line, on_notice=on_notice)


def _close(cluster: AsyncCluster) -> None:
    if cluster.is_connected:
        portal().finish(cluster.close())
