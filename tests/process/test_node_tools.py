"""The tools that pods get beside their own."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from trainshed.cluster.node.pod.starter import tools_directory
from trainshed.jobs.v1.frameworks.pytorch import PyTorchOptions


def test_nslookup_answers_like_the_real_one():
    tool = Path(__file__).parents[2] / "src/trainshed/cluster/node/pod/tools/nslookup"
    found = subprocess.run([tool, "localhost"], capture_output=True, text=True, timeout=20)
    assert found.returncode == 0 and "Address: 127.0.0.1" in found.stdout
    missing = subprocess.run([tool, "no-such-name.invalid"], capture_output=True, text=True, timeout=20)
    assert missing.returncode == 1 and "can't find" in missing.stderr
    assert tools_directory() in (None, tool.parent)


def test_a_worker_that_waits_for_its_master_ends_when_it_is_told_to(tmp_path):
    nslookup = tmp_path / "nslookup"
    nslookup.write_text("#!/bin/sh\nexit 1\n")
    nslookup.chmod(0o755)
    (container,) = PyTorchOptions().init_containers("job-master-0")
    waiting = subprocess.Popen(
        container["command"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, stdout=subprocess.PIPE, text=True
    )
    assert waiting.stdout is not None
    with waiting.stdout as printed:
        assert printed.readline() == "waiting for master\n"
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(10) == 143, "by a trap: process 1 of a container has no other answer to SIGTERM"
