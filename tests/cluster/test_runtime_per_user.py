"""What the kernel gives each user: pods, which are one user of the machine's, do not get the last of it.

Pods share it, as those of a node do: what one takes the others lack.
"""

from __future__ import annotations

import ctypes
import os
import resource

from tests.cluster.sandboxes import Sandboxes, log_text, until

_TAKES_ALL = """
import ctypes, os, resource, time
libc = ctypes.CDLL(None, use_errno=True)
librt = ctypes.CDLL("librt.so.1", use_errno=True)
os.mkdir("/tmp/watched")
def take(what, make, most):
    taken = 0
    while taken < most and make(taken) >= 0:
        taken += 1
    print(what, "bounded" if taken < most else "not bounded", flush=True)
def queue(number):
    return librt.mq_open(f"/{number}".encode(), os.O_CREAT | os.O_RDWR, 0o600, None)
def timer(number):
    return libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p()))
take("instances", lambda number: libc.inotify_init1(0), MOST["instances"])
take("queues", queue, MOST["queues"])
take("timers", timer, MOST["timers"])
print("done", flush=True)
time.sleep(600)
"""
_MOST_TIMERS = 200_000
_QUEUE_BYTES = 100_000
"""What a queue of the default size takes, with room to spare."""


async def test_a_pod_leaves_the_user_some_of_what_is_counted_by_users(boxes: Sandboxes) -> None:
    with open("/proc/sys/fs/inotify/max_user_instances") as file:
        instances = int(file.read())
    soft = {
        kind: resource.getrlimit(number)[0]
        for kind, number in (("timers", resource.RLIMIT_SIGPENDING), ("queues", resource.RLIMIT_MSGQUEUE))
    }
    most = {"instances": instances, "queues": 200, "timers": _MOST_TIMERS}
    await boxes.pod("greedy")
    await boxes.start("greedy", "python3", "-c", f"MOST = {most}\n{_TAKES_ALL}")

    async def has_taken() -> bool:
        return "done" in log_text(boxes.log("greedy"))

    await until("the pod to have taken what it gets", has_taken)
    assert "instances bounded" in boxes.output("greedy"), boxes.output("greedy")
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_CLOEXEC)
    assert descriptor >= 0, "an editor of the user watches files"
    assert libc.inotify_add_watch(descriptor, b"/tmp", 2) >= 0
    os.close(descriptor)
    if soft["timers"] != resource.RLIM_INFINITY and soft["timers"] < _MOST_TIMERS:
        assert "timers bounded" in boxes.output("greedy")
        timer = ctypes.c_void_p()
        assert libc.timer_create(1, None, ctypes.byref(timer)) == 0
        assert libc.timer_delete(timer) == 0
    if soft["queues"] != resource.RLIM_INFINITY and soft["queues"] // 8 >= _QUEUE_BYTES:
        assert "queues bounded" in boxes.output("greedy")
        librt, name = ctypes.CDLL("librt.so.1", use_errno=True), f"/trainshed-{os.getpid()}".encode()
        queue = librt.mq_open(name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600, None)
        assert queue >= 0, os.strerror(ctypes.get_errno())
        os.close(queue)
        assert librt.mq_unlink(name) == 0
