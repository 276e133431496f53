"""A Jupyter kernel that is a fork of this process.

Both sides import nearly the same modules, which is most of what starting a kernel takes: so they are imported once,
before the fork. Nothing of the kernel's has been called by then, and no thread has been started.
"""

from __future__ import annotations

import asyncio
import atexit
import errno
import gc
import importlib
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from types import ModuleType
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase
from traitlets import Type
from zmq.error import ZMQError

_STREAM = "trainshed.pipelines.runner.stream.Stream"
_LONGEST_FOLDER = 107 - len("/kernel-5")
"""What the longest path of a socket leaves (unix(7)), in bytes."""
_LEAVING_SECONDS = 5.0
_CONNECTED_SECONDS = 0.2


@contextmanager
def _absent(*names: str) -> Iterator[None]:
    """Make modules that are not yet imported look as if they were not installed."""
    hidden = [name for name in names if name not in sys.modules]
    placeholder: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]
    placeholder.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def _load() -> None:
    """Import what the kernel needs, and what the step's own part in it needs."""
    with _absent("debugpy", "debugpy.server"):  # a quarter of a kernel's start, and nobody connects to it
        importlib.import_module("ipykernel.debugger")
    for name in ("ipykernel.kernelapp", "trainshed.pipelines.runner.inside", _STREAM.rpartition(".")[0]):
        importlib.import_module(name)


def fork(folder: Path, started_in: str) -> AsyncKernelManager:
    """Start a kernel whose sockets lie in `folder`; return its manager.

    Call it before the process has an event loop, a thread or a socket of ZeroMQ. Modules of `started_in`, the directory
    where the process was started, are not the step's.
    """
    gc.disable()  # of what is imported nothing becomes garbage
    _load()
    manager = _Manager(
        transport="ipc", ip=str(_short(folder) / "kernel"), connection_file=str(folder / "kernel.json")
    )
    manager.write_connection_file()
    gc.freeze()  # what is there now stays, and would otherwise be copied by the first collection
    bound, has_bound = os.pipe()
    pid = os.fork()
    gc.enable()
    if pid == 0:
        os.close(bound)
        _become_kernel(manager.connection_file, started_in, has_bound)
    os.close(has_bound)
    manager.provisioner = _Forked(
        parent=manager, pid=pid, bound=bound, connection_info=manager.get_connection_info()
    )
    return manager


def _short(folder: Path) -> Path:
    """Return the folder by a path that leaves room for the names of sockets: in some pods that of temporary files is so
    long that it does not. Then by a descriptor, which the kernel inherits under the same number."""
    if len(os.fsencode(folder)) <= _LONGEST_FOLDER:
        return folder
    return Path(f"/proc/self/fd/{os.open(folder, os.O_PATH | os.O_CLOEXEC)}")


async def listens(manager: AsyncKernelManager) -> None:
    """Return once the kernel can be connected to, or has ended.

    A connection that is tried before that is tried again after 0.1 s, and on each socket for itself.
    """
    assert isinstance(manager.provisioner, _Forked)
    await manager.provisioner.bound()


async def ended(manager: AsyncKernelManager) -> None:
    """Return once the kernel's process has ended."""
    assert manager.provisioner is not None
    await manager.provisioner.wait()


def _become_kernel(connection_file: str, started_in: str, has_bound: int) -> None:
    """Be the kernel until it is shut down; close `has_bound` once it can be connected to. Does not return."""
    from ipykernel.kernelapp import IPKernelApp
    from traitlets.config import Config

    atexit.register(_leave)  # the first that is registered is the last that runs
    os.setsid()  # a Ctrl-C or the end of the step's process group is for the runner, which ends the kernel
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sys.argv = ["ipykernel_launcher.py", "-f", connection_file]
    # IPython puts the working directory there.
    sys.path[:] = [path for path in sys.path if path not in ("", started_in)]
    config = Config()
    config.HistoryManager.enabled = False  # a database in the home directory
    config.IPKernelApp.parent_handle = os.getppid()
    config.IPKernelApp.outstream_class = _STREAM
    app: Any = IPKernelApp.instance(connection_file=connection_file, config=config)
    app.initialize([])
    # Stops the thread that sends output, then waits for one that may still have some to send: now and then for ever.
    # The process ends, and its sockets with it.
    atexit.unregister(app.close)
    for handler in app.log.handlers:
        handler.addFilter(_says_more_than_its_end)
    os.close(has_bound)
    app.start()
    sys.exit(0)


def _says_more_than_its_end(record: logging.LogRecord) -> bool:
    """Return whether a log line tells more than that the kernel was interrupted, which the runner asks for and reports.

    ipykernel's thread for control messages closes the sockets while its main thread may still answer (as of 7.4).
    """
    if record.exc_info is not None and isinstance(record.exc_info[1], ZMQError):
        return record.exc_info[1].errno != errno.ENOTSOCK
    return "KeyboardInterrupt caught in kernel" not in record.getMessage()


def _leave() -> None:
    """End without taking the interpreter apart, which takes as long as all that a small step does."""
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            stream.flush()
    os._exit(0)


async def _readable(descriptor: int) -> None:
    """Return once there is something to read, or the other side has closed it."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, told.set)
    try:
        await told.wait()
    finally:
        loop.remove_reader(descriptor)


class _Client(AsyncKernelClient):
    def start_channels(self, *args: Any, **kwargs: Any) -> None:
        """Connect, without the thread that would ask for signs of life: the kernel is a child, whose end is known."""
        super().start_channels(*args, **{**kwargs, "hb": False})

    async def wait_for_ready(self, timeout: float | None = None) -> None:
        """Return as soon as the kernel answers and its output arrives; the base class then waits 0.2 s for silence.

        Raises RuntimeError when it dies or takes longer than `timeout` seconds.
        """
        async with asyncio.timeout(timeout):
            await self._subscribed()
            while not await self._answers():
                if not await self.is_alive():
                    raise RuntimeError("the kernel died before it answered")

    async def _subscribed(self) -> None:
        """Return once the kernel says that it has the subscription to its output, as it does from ipykernel 7 on."""
        try:
            while (await self.iopub_channel.get_msg(timeout=_CONNECTED_SECONDS))[
                "msg_type"
            ] != "iopub_welcome":
                pass
        except Empty:
            return

    async def _answers(self) -> bool:
        asked = self.kernel_info()
        try:
            # What is put out before the subscription has arrived is lost: then ask again.
            while (await self.iopub_channel.get_msg(timeout=_CONNECTED_SECONDS))["parent_header"].get(
                "msg_id"
            ) != asked:
                pass
            while (await self.shell_channel.get_msg(timeout=_LEAVING_SECONDS))["parent_header"].get(
                "msg_id"
            ) != asked:
                pass
        except Empty:
            return False
        return True


class _Manager(AsyncKernelManager):
    # The base class sets its own, which `client_class` of a subclass does not change.
    client_factory = Type(_Client, klass=AsyncKernelClient)

    @property
    def kernel_spec(self) -> KernelSpec:
        """How to treat the kernel. There is none to look for: not the user's either."""
        return KernelSpec(interrupt_mode="signal")


class _Forked(KernelProvisionerBase):
    """The kernel's process: a child of this one, which runs already."""

    def __init__(self, pid: int, bound: int, connection_info: KernelConnectionInfo, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pid, self.connection_info = pid, connection_info
        self._bound = bound
        self._handle = os.pidfd_open(pid)
        self._status: int | None = None

    @property
    def has_process(self) -> bool:
        """Whether there is a process; always until `wait` has returned."""
        return self._status is None

    async def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)  # noqa: ASYNC222 - does not wait
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    async def wait(self) -> int | None:
        """Wait for its end and return the exit code."""
        await self._end()
        return await self.poll()

    async def bound(self) -> None:
        """Return once its sockets are bound, or it has ended."""
        await _readable(self._bound)
        os.close(self._bound)

    async def _end(self) -> None:
        if self._status is None:
            await _readable(self._handle)

    async def send_signal(self, signum: int) -> None:
        """Send it to the kernel and what it has started, as a terminal would."""
        if await self.poll() is None:
            os.killpg(self.pid, signum)

    async def kill(self, restart: bool = False) -> None:
        """End it at once."""
        await self.send_signal(9)

    async def terminate(self, restart: bool = False) -> None:
        """Ask it to end."""
        await self.send_signal(15)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Return how to reach it: it runs already."""
        return self.connection_info

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """There is no command to prepare."""
        return {"cmd": [], **kwargs}

    async def shutdown_requested(self, restart: bool = False) -> None:
        """Wait for the end that was asked for; the manager would look every 0.1 s."""
        try:
            await asyncio.wait_for(self._end(), _LEAVING_SECONDS)
        except TimeoutError:
            return

    async def cleanup(self, restart: bool = False) -> None:
        """Let go of the process."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
