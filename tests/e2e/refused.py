"""Runs a command where the kernel refuses every namespace, as under the default profile of a container engine.

python refused.py COMMAND…
"""

from __future__ import annotations

import os
import sys

from trainshed.cluster.sandbox.linux import seccomp, syscalls

if __name__ == "__main__":
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    seccomp.apply(seccomp.program(os.uname().machine, 0))
    os.execvp(sys.argv[1], sys.argv[1:])
