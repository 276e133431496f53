"""How long the control plane takes to answer /readyz, and what it imports from others."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from ssl import CERT_NONE, create_default_context

import yaml

from bench.cluster import installed_environment, trainshed

_SERVE = "trainshed.cli.serve"
_LATER = (
    "trainshed.cli.controlplane",
    "trainshed.cluster.apiserver.serve",
    "trainshed.cluster.apiserver.streams.protocol",
    "uvloop",
)
_ASK = (
    f"import sys, json, {_SERVE}, {', '.join(_LATER)}\n"
    "print(json.dumps([name for name, module in list(sys.modules.items())\n"
    "    if 'site-packages' in (getattr(module, '__file__', None) or '') and not name.startswith('_')]))"
)


def third_party() -> list[str]:
    """Return the modules of other packages that the control plane's process imports."""
    done = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return [name for name in found if all(part.isidentifier() for part in name.split("."))]


def seconds_to_ready() -> float:
    """Return the seconds from the start of a control plane on an empty directory until /readyz says 200."""
    context = create_default_context()
    context.check_hostname, context.verify_mode = False, CERT_NONE
    with tempfile.TemporaryDirectory(prefix="trainshed-bench-") as folder:
        home = Path(folder) / "state"
        (home / "run").mkdir(parents=True, mode=0o700)
        home.chmod(0o700)
        began = time.perf_counter()
        command = [sys.executable, "-m", _SERVE, "--home", str(home)]
        process = subprocess.Popen(
            command, env=installed_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            while not _answers(home, context):
                if process.poll() is not None or time.perf_counter() - began > 60:
                    raise TimeoutError("waited 60 s for /readyz")
                time.sleep(0.005)
            return time.perf_counter() - began
        finally:
            process.terminate()
            process.wait(30)
            trainshed(home, "down", "--purge", "--yes", check=False)


def _answers(home: Path, context: object) -> bool:
    try:
        config = yaml.safe_load((home / "kubeconfig").read_text())
        address = config["clusters"][0]["cluster"]["server"]
        with urllib.request.urlopen(f"{address}/readyz", timeout=5, context=context) as answer:  # type: ignore[arg-type]
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError, TypeError, KeyError):
        return False
