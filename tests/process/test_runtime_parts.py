"""The small parts of the sandbox runtime that need sockets, real time or an interpreter of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from trainshed.cluster.sandbox import files, wire
from trainshed.cluster.sandbox.loop import Loop


class TestFrames:
    def test_descriptors_arrive_with_their_frame(self) -> None:
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        with ours, theirs:
            wire.send_all(theirs, wire.message_frame({"a": 1}), [write])
            os.close(write)
            answer, descriptors = wire.ask(ours, {})
            assert answer == {"a": 1}
            (received,) = descriptors
            os.write(received, b"through")
            os.close(received)
        assert os.read(read, 10) == b"through"
        os.close(read)

    def test_socket_paths_may_be_long(self, tmp_path: Path) -> None:
        directory = tmp_path / ("d" * 100) / ("e" * 100)
        directory.mkdir(parents=True)
        path = str(directory / "name.sock")
        listener = wire.listen(path)
        assert os.stat(path).st_mode & 0o777 == 0o600  # noqa: PTH116
        connection = wire.connect(path)
        accepted, _ = listener.accept()
        assert wire.is_same_user(accepted)
        for sock in (accepted, connection, listener):
            sock.close()

    def test_many_may_connect_before_the_first_is_answered(self, tmp_path: Path) -> None:
        """As when many pods are removed at once: nobody is turned away."""
        path = str(tmp_path / "name.sock")
        with wire.listen(path):
            connections = [wire.connect(path, timeout=0) for _ in range(200)]
            for sock in connections:
                sock.close()


class TestLoop:
    def test_timers_run_in_order_and_can_be_cancelled(self) -> None:
        loop = Loop()
        seen: list[str] = []
        loop.later(0.02, lambda: seen.append("second"))
        loop.later(0.0, lambda: seen.append("first"))
        loop.later(0.01, lambda: seen.append("never")).cancel()
        loop.later(0.03, loop.stop)
        loop.run()
        loop.close()
        assert seen == ["first", "second"]

    def test_a_callback_that_raises_costs_itself_only(self, capfd: pytest.CaptureFixture[str]) -> None:
        loop = Loop()
        read, write = os.pipe()
        os.write(write, b"x")

        def fail(events: int) -> None:
            raise RuntimeError("a bug")

        loop.watch(read, 1, fail)
        loop.later(0.05, loop.stop)
        begin = time.monotonic()
        loop.run()
        assert time.monotonic() - begin >= 0.04
        assert capfd.readouterr().err.count("RuntimeError: a bug") == 1
        for fd in (read, write):
            os.close(fd)
        loop.close()


def test_trees_of_any_depth_are_removed(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    current = os.open(tree, os.O_RDONLY)
    for number in range(3000):
        os.mkdir("d", dir_fd=current)
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=current))
        os.symlink("/etc", "link", dir_fd=current)
        following = os.open("d", os.O_RDONLY, dir_fd=current)
        if number % 1000 == 0:
            os.fchmod(current, 0)
        os.close(current)
        current = following
    os.close(current)
    try:
        files.remove_tree(str(tree))
        assert list(tmp_path.iterdir()) == []
    finally:  # pytest cannot delete it either
        subprocess.run(["rm", "-rf", str(tree)], check=True)
