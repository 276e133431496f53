"""The process that forwards to Services, as netd's death finds it: it ends, whatever it was doing."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest

from trainshed.cluster.sandbox.daemon import servicepost, serviceproxy
from trainshed.cluster.sandbox.daemon.serviceproxy import Forwarder, MachineSockets
from trainshed.cluster.sandbox.loop import Loop


@pytest.mark.parametrize(
    "routes", ['{"routes": []}', '{"routes": [{}]}'], ids=["good", "that cannot be read"]
)
def test_a_message_that_netd_does_not_live_to_see_answered_is_the_last(
    tmp_path: Path, routes: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / servicepost.ROUTES
    path.write_text(routes)
    monkeypatch.setattr(serviceproxy, "end_with_parent", lambda: None)
    netd, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    netd.send(json.dumps({"number": 1}).encode())
    netd.close()
    with ours:
        forwarder = Forwarder(Loop(), ours, str(path), MachineSockets())
        running = threading.Thread(target=forwarder.run, daemon=True)
        running.start()
        running.join(20)
        assert not running.is_alive(), "waited 20 s for the process that forwards to end"
