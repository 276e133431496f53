"""The parts of an MXJob, without MXNet: a scheduler, servers that hold the weights, workers that fit a line.

MXNet has been retired, and no build of it fits a current Python. What it would read from the environment is here, and
what it would do with that in the standard library: all register with the scheduler at DMLC_PS_ROOT_URI, which ends when
every worker has said that it is done, and the job with it. Each server holds the part of the weights that is its own.
"""

from __future__ import annotations

import json
import os
import random
import socket
import socketserver
import threading
import time
from typing import Any

WANTED = (2.0, -3.0, 0.5, 1.0)
ROLE, SCHEDULER = (
    os.environ["DMLC_ROLE"],
    (os.environ["DMLC_PS_ROOT_URI"], int(os.environ["DMLC_PS_ROOT_PORT"])),
)
SERVERS, WORKERS = int(os.environ["DMLC_NUM_SERVER"]), int(os.environ["DMLC_NUM_WORKER"])
TOLD = json.loads(os.environ["MX_CONFIG"])


def ask(address: tuple[str, int], question: Any, seconds: float = 60) -> Any:
    """Send one line of JSON and return the answer, trying until somebody listens."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with socket.create_connection(address) as connection, connection.makefile("rw") as stream:
                print(json.dumps(question), file=stream, flush=True)
                return json.loads(stream.readline())
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


class Handler(socketserver.StreamRequestHandler):
    """Answers one line with what the part that serves makes of it."""

    def handle(self) -> None:
        answer = self.server.part.answer(json.loads(self.rfile.readline()))  # type: ignore[attr-defined]
        self.wfile.write(json.dumps(answer).encode() + b"\n")


def serve(part: Any, port: int) -> socketserver.ThreadingTCPServer:
    """Start to answer for the part."""
    server = socketserver.ThreadingTCPServer(("", port), Handler)
    server.part = part  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Scheduler:
    """Waits until all have come, and until all workers are done."""

    def __init__(self) -> None:
        self.came, self.done = threading.Barrier(SERVERS + WORKERS + 1), threading.Semaphore(0)

    def answer(self, question: Any) -> Any:
        if question[0] == "done":
            self.done.release()
        else:
            self.came.wait(60)
        return "ok"


class Server:
    """Holds some of the weights, and changes them when every worker has sent its gradient."""

    def __init__(self, count: int) -> None:
        self.weights, self.total = [0.0] * count, [0.0] * count
        self.full = threading.Barrier(WORKERS, action=self._step)
        self.lock = threading.Lock()

    def answer(self, gradient: list[float]) -> list[float]:
        if gradient:
            with self.lock:
                self.total = [a + b for a, b in zip(self.total, gradient, strict=True)]
            self.full.wait(60)
        return self.weights

    def _step(self) -> None:
        self.weights = [w - 0.1 * t / WORKERS for w, t in zip(self.weights, self.total, strict=True)]
        self.total = [0.0] * len(self.total)


def part_of(index: int) -> slice:
    """Return which weights the server of that index holds: every one of as many as there are servers."""
    return slice(index, None, SERVERS)


def train(steps: int = 60) -> list[float]:
    """Fit the line as a worker: fetch the weights, send the gradient of rows that this worker alone has."""
    chance = random.Random(int(os.environ["DMLC_WORKER_ID"]))
    rows = [[chance.gauss(0, 1) for _ in WANTED] for _ in range(256)]
    servers = [(one["url"], one["port"]) for one in TOLD["cluster"]["server"]]
    weights, gradient = [0.0] * len(WANTED), [0.0] * len(WANTED)
    for step in range(steps + 1):
        for index, address in enumerate(servers):
            weights[part_of(index)] = ask(address, gradient[part_of(index)] if step else [])
        gradient = [0.0] * len(WANTED)
        for row in rows:
            error = sum(x * (w - wanted) for x, w, wanted in zip(row, weights, WANTED, strict=True))
            gradient = [g + 2 * error * x / len(rows) for g, x in zip(gradient, row, strict=True)]
    return weights


def main() -> None:
    me = TOLD["task"]
    print(f"{ROLE} {me['index']} of {SERVERS} servers and {WORKERS} workers", flush=True)
    own = TOLD["cluster"][ROLE][me["index"]]
    if ROLE == "scheduler":
        scheduler = Scheduler()
        server = serve(scheduler, own["port"])
        scheduler.came.wait(60)
        for _ in range(WORKERS):
            assert scheduler.done.acquire(timeout=60), "a worker is not done"
        server.shutdown()
        server.server_close()  # when the last answer has been sent
        print("all workers are done", flush=True)
        time.sleep(2)  # and have ended: with this process ends the job, and with it goes whatever runs still
        return
    if ROLE == "server":
        serve(Server(len(WANTED[part_of(me["index"])])), own["port"])
    ask(SCHEDULER, [ROLE, me["index"]])
    if ROLE == "server":
        threading.Event().wait()
    print("weights", *(f"{weight:.3f}" for weight in train()), flush=True)
    ask(SCHEDULER, ["done"])


if __name__ == "__main__":
    main()
