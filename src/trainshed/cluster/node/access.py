"""Access to the pods of a node: logs, exec, attach, port-forward, with the kubelet's error texts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from trainshed.cluster.backend import ByteStream, ExecRequest, ExecSession, LogRequest
from trainshed.cluster.node.paths import NodePaths
from trainshed.cluster.node.pod.logs import read_logs
from trainshed.cluster.node.pod.observed import Attempt
from trainshed.cluster.node.pod.worker import PodWorker
from trainshed.cluster.sandbox.api import ExecSpec, Runtime, RuntimeLost, SandboxNotFound, StartError
from trainshed.kube.meta.errors import ApiError, bad_request, internal
from trainshed.kube.meta.objects import Object, section
from trainshed.kube.meta.pods import CONTAINER_STATUSES, find_container


class NodeAccess:
    """Implements `cluster.backend.NodeBackend`. `workers` is the node's own table, by pod uid."""

    def __init__(self, runtime: Runtime, paths: NodePaths, workers: Mapping[str, PodWorker]) -> None:
        self._runtime = runtime
        self._paths = paths
        self._workers = workers

    async def logs(self, pod: Object, request: LogRequest) -> AsyncIterator[bytes]:
        """Yield log bytes; with `follow`, until the container ends. ApiError 400 while there is nothing."""
        uid, name = pod["metadata"]["uid"], request.container
        attempt = self._logged_attempt(pod, name, request.previous)
        path = self._paths.log(uid, name, attempt.number)

        def ended() -> bool:
            worker = self._workers.get(uid)
            if worker is None:
                return True
            now = worker.record.container(name).attempts.get(attempt.number)
            return now is None or not now.running

        worker = self._workers.get(uid)
        listeners = worker.listeners if worker is not None else None
        async for block in read_logs(path, request, ended=ended, listeners=listeners):
            yield block

    async def exec(self, pod: Object, request: ExecRequest) -> ExecSession:
        """Run a command in a running container; on a terminal that says what it is, as with containerd."""
        uid = self._running(pod, request.container)
        env = (("TERM", "xterm"),) if request.tty else ()
        try:
            spec = ExecSpec(
                container=request.container,
                argv=request.command,
                env=env,
                stdin=request.stdin,
                tty=request.tty,
            )
            return await self._runtime.exec(uid, spec)
        except SandboxNotFound:
            raise _container_not_found(request.container) from None
        except (StartError, RuntimeLost) as error:
            raise internal(f"error executing command in container: {error}") from error

    async def attach(self, pod: Object, request: ExecRequest) -> ExecSession:
        """Join the streams of a running container."""
        uid = self._running(pod, request.container)
        try:
            return await self._runtime.attach(uid, request.container, stdin=request.stdin)
        except SandboxNotFound:
            raise _container_not_found(request.container) from None
        except RuntimeLost as error:
            raise internal(f"error attaching to container: {error}") from error

    async def port_forward(self, pod: Object, port: int) -> ByteStream:
        """Connect to `port` of the pod. Raises OSError when nothing listens there."""
        metadata = pod["metadata"]
        worker = self._workers.get(metadata["uid"])
        if worker is None or worker.record.ip is None or worker.record.stopped:
            raise ApiError(404, "NotFound", f'pod not found ("{metadata["name"]}_{metadata["namespace"]}")')
        try:
            return await self._runtime.dial(metadata["uid"], port)
        except (SandboxNotFound, RuntimeLost) as error:
            raise ConnectionRefusedError(str(error)) from error

    def _logged_attempt(self, pod: Object, name: str, previous: bool) -> Attempt:
        """Return the attempt whose log is asked for (kubelet `validateContainerLogStatus`)."""
        pod_name = pod["metadata"]["name"]
        if find_container(pod, name) is None:
            raise bad_request(f"container {name} is not valid for pod {pod_name}")
        worker = self._workers.get(pod["metadata"]["uid"])
        known = worker.seen().container(name) if worker is not None else None
        attempts = known.attempts if known is not None else ()
        waiting = self._waiting(worker, name) if worker is not None else None
        if previous:
            ended = attempts if waiting is not None else attempts[:-1]
            if not ended:
                raise bad_request(f'previous terminated container "{name}" in pod "{pod_name}" not found')
            return ended[-1]
        if attempts:
            return attempts[-1]
        if waiting is None:
            raise bad_request(f'container "{name}" in pod "{pod_name}" is not available')
        reason = waiting.get("reason", "ContainerCreating")
        if reason in ("ErrImageNeverPull", "InvalidImageName"):
            reason = "image can't be used" if reason == "InvalidImageName" else "image is never pulled"
        raise bad_request(f'container "{name}" in pod "{pod_name}" is waiting to start: {reason}')

    def _waiting(self, worker: PodWorker, name: str) -> Object | None:
        status = worker.status()
        for key in CONTAINER_STATUSES:
            for written in status.get(key) or ():
                if written["name"] == name:
                    waiting: Object | None = section(written, "state").get("waiting")
                    return waiting
        return {"reason": "ContainerCreating"}

    def _running(self, pod: Object, container: str) -> str:
        uid: str = pod["metadata"]["uid"]
        if find_container(pod, container) is None:
            raise bad_request(f"container {container} is not valid for pod {pod['metadata']['name']}")
        worker = self._workers.get(uid)
        if worker is None or not worker.seen().container(container).running:
            raise _container_not_found(container)
        return uid


def _container_not_found(container: str) -> ApiError:
    """The kubelet's answer when a container does not run."""
    return ApiError(404, "NotFound", f'container not found ("{container}")')
