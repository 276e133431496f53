"""The tools that pods get beside their own."""

from __future__ import annotations

import subprocess
from pathlib import Path

from trainshed.cluster.node.pod.starter import tools_directory


def test_nslookup_answers_like_the_real_one():
    tool = Path(__file__).parents[2] / "src/trainshed/cluster/node/pod/tools/nslookup"
    found = subprocess.run([tool, "localhost"], capture_output=True, text=True, timeout=20)
    assert found.returncode == 0 and "Address: 127.0.0.1" in found.stdout
    missing = subprocess.run([tool, "no-such-name.invalid"], capture_output=True, text=True, timeout=20)
    assert missing.returncode == 1 and "can't find" in missing.stderr
    assert tools_directory() in (None, tool.parent)
