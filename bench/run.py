"""Measure the promises of the README and print them as a table.

    .venv/bin/python -m bench.run [--quick] [--node] [--write docs/reference/benchmarks.md]

Every ratio is against a baseline taken in the same run, alternating with it, since machines are shared and noisy.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from bench import allreduce, coldstart, gang, images, loop, notebooks, pipelines, pods, shim, training
from bench.measure import Figure, circumstances, table

ROOT = Path(__file__).parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few repetitions: to see that it works")
    parser.add_argument("--node", action="store_true", help="what pods cost, and nothing else")
    parser.add_argument("--write", type=Path, help="also write the page")
    args = parser.parse_args()
    figures: list[Figure] = []
    if not args.node:
        print("cold start and memory …", flush=True)
        figures += coldstart.measure(repetitions=2 if args.quick else 7)
    print("pods …", flush=True)
    figures += shim.measure(repetitions=10 if args.quick else 30)
    figures += pods.measure(repetitions=10 if args.quick else 50)
    print("1 + 4 replicas to Running …", flush=True)
    figures += asyncio.run(gang.measure(repetitions=5 if args.quick else 100))
    if not args.node:
        print("following and running again …", flush=True)
        figures += loop.measure(repetitions=1 if args.quick else 5)
        print("images …", flush=True)
        figures += images.measure(*((2, 200) if args.quick else (7, 1000)))
        print("notebooks …", flush=True)
        figures += notebooks.measure(repetitions=3 if args.quick else 15)
        figures += pipelines.measure(repetitions=1 if args.quick else 5)
    print("training in pods against bare torchrun …", flush=True)
    figures += allreduce.measure(repetitions=1 if args.quick else 7)
    figures += training.measure(repetitions=1 if args.quick else 5)
    text = f"{circumstances(ROOT)}\n\n{table(figures)}\n"
    print(text)
    if args.write:
        args.write.write_text(PAGE.format(results=text))


PAGE = """# Benchmarks

What the project promises about speed and memory, and what it measured. Made by `python -m bench.run --write` on the
machine named below; run it on yours. Ratios are against a baseline taken alternately in the same run.

{results}
How each figure is taken:

- **cold start to Ready**: from an empty state directory, `trainshed up` as a user types it, until the API server is
  ready; and until the operator's pod is Ready too.
- **idle memory**: resident memory of the control plane, both daemons, the operator and its shim, 5 s after the start.
- **1 + 4 replicas to Running**: a PyTorchJob whose containers sleep, from the request that creates it to the moment
  a watch shows the last of its five pods Running.
- **following a log**: CPU time of `trainshed follow` on a finished job of 300,000 lines, divided by them.
- **running a finished job again**: `trainshed run` of three replicas that say a word, 17 times.
- **first training step**, **throughput**: the Fashion-MNIST example with three ranks, as a job and under bare
  `torchrun` with the same three ranks; time to the first logged step, and images per second from the first to the last.
- **all-reduce**: 20 gloo all-reduces between two ranks, in pods and under bare `torchrun`.
- **candies notebook**, **a step**: `trainshed notebook run` as a user types it, on a warm cluster, four steps one after
  another; and a third of what they take longer than one step, with pods prepared ahead and without in turn.
- **processor time of a step**: user and system time of the step runner and its kernel for a step that prints a line.
- **processor time of the command**: user and system time of `trainshed notebook run` for the four steps.
- **50 independent steps**: a notebook whose steps wait for none, and how many of them ran at the same time at most.
- **notebooks**: a generated notebook of 100 cells, most of them steps; reading, names, edges and findings.
- **one pod**: from the event of its binding to that of its phase Running, as a watch sees them; its container sleeps.
- **a command in a pod**: `true` by `kubectl exec`'s WebSocket, sent by Kubernetes' own Python client.
- **log of a pod**: 300 MB in lines of 100 bytes, as fast as `yes` prints them, to one who follows through the API.
- **warm build**, **pull**, **start in an image**: `trainshed image build -q` and `image pull` as a user types them, the
  registry Debian's `docker-registry` on loopback; a pod and its container from the request to its end. Beside them
  buildah and podman, alternating, where they are installed (`bench/images.py`).
- **shim**: resident memory of a pod's shim, and how long making its sandbox takes.
"""


if __name__ == "__main__":
    main()
