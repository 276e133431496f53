"""What a warm interpreter saves, for 0020: `PYTHON docs/decisions/measure/warmstart.py`, an interpreter that has torch.

From the start of a rank's process to the end of its first step: in new interpreters, and in children forked from one
that has imported what the script imports. Processor time of all ranks, and wall time; rounds alternate.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from figures import alternate, median, print_table, print_versions

ROUNDS = 3
SOURCE = Path(__file__).parents[3] / "examples/fashion-mnist/src"
IMPORTS = "import torch, torch.distributed\nfrom torch.nn.parallel import DistributedDataParallel"
STEP = """
import sys
import torch, torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
sys.path.insert(0, sys.argv[1])
from fashion_mnist.model import Net
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(1)
model = DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images, labels = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
optimizer.zero_grad()
F.nll_loss(model(images), labels).backward()
optimizer.step()
dist.barrier()
import os
os._exit(0)
"""
ZYGOTE = """
import json, os, sys
exec(sys.argv[1])
print("warm", flush=True)
for line in sys.stdin:
    ranks = json.loads(line)
    for environment in ranks["environments"]:
        if os.fork() == 0:
            os.environ.update(environment)
            sys.argv = ["step", ranks["source"]]
            exec(compile(ranks["code"], "step", "exec"), {"__name__": "__main__"})
    used = 0.0
    for _ in ranks["environments"]:
        _, status, usage = os.wait4(-1, 0)
        assert status == 0, status
        used += usage.ru_utime + usage.ru_stime
    print(used, flush=True)
"""
_port = 29700


def environments(ranks: int) -> list[dict[str, str]]:
    """Return what each rank finds, a new port every time."""
    global _port
    _port += 1
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_port), "WORLD_SIZE": str(ranks)}
    return [{**shared, "RANK": str(rank), "OMP_NUM_THREADS": "1"} for rank in range(ranks)]


def cold(ranks: int) -> tuple[float, float]:
    """Return (seconds of processor time, seconds) with a new interpreter for each rank."""
    started, used = time.perf_counter(), 0.0
    children = [
        subprocess.Popen([sys.executable, "-c", STEP, str(SOURCE)], env={**os.environ, **environment})
        for environment in environments(ranks)
    ]
    for child in children:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        used += usage.ru_utime + usage.ru_stime
    return used, time.perf_counter() - started


def warm(zygote: subprocess.Popen[str], ranks: int) -> tuple[float, float]:
    """Return the same with children of an interpreter that is warm."""
    assert zygote.stdin is not None and zygote.stdout is not None
    started = time.perf_counter()
    request = {"environments": environments(ranks), "source": str(SOURCE), "code": STEP}
    print(json.dumps(request), file=zygote.stdin, flush=True)
    used = float(zygote.stdout.readline())
    return used, time.perf_counter() - started


def main() -> None:
    print_versions("torch")
    with subprocess.Popen(
        [sys.executable, "-c", ZYGOTE, IMPORTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as zygote:
        assert zygote.stdout is not None
        assert zygote.stdout.readline() == "warm\n"
        rows = []
        for ranks in (1, 3):
            found = alternate(
                ROUNDS,
                {"new": lambda r=ranks: cold(r), "warm": lambda r=ranks: warm(zygote, r)},  # type: ignore[dict-item]
            )
            for name, samples in found.items():
                used, took = zip(*samples, strict=True)  # type: ignore[call-overload]
                rows.append(
                    [
                        str(ranks),
                        name,
                        f"{median(used):.2f} s",
                        f"{median(took):.2f} s",
                        f"{min(took):.2f} to {max(took):.2f}",
                    ]
                )
        assert zygote.stdin is not None
        zygote.stdin.close()
    print_table(["ranks", "interpreter", "processor time", "wall", "spread"], rows)


if __name__ == "__main__":
    main()
