"""A cgroup of its own for the sandboxes, from systemd, where there is one to ask.

systemd leaves what is below such a scope to whoever asked for it (`Delegate=`, systemd.resource-control(5)). An
ordinary user's scopes end with the last session, and pods with them, unless the user lingers (loginctl(1)). So pods do
without where a cluster would outlive the session otherwise, as one does that was started over ssh.
"""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

BOOTED = Path("/run/systemd/system")  # sd_booted(3)
LINGER = Path("/var/lib/systemd/linger")
POLKIT = Path("/usr/share/dbus-1/system-services/org.freedesktop.PolicyKit1.service")
"""Without it systemd asks nobody whether a user may linger, and lets root alone say so."""
_OPTIONS = ("--scope", "--quiet", "--collect", "--no-ask-password", "--property=Delegate=yes")


def scoped(command: list[str]) -> list[str]:
    """Return the command so that it runs in a scope of its own; as it is where none can be had."""
    program = shutil.which("systemd-run")
    if program is None or not BOOTED.is_dir():
        return command
    if os.geteuid() == 0:
        return [program, *_OPTIONS, "--description=Trainshed", "--", *command]
    if not Path(f"/run/user/{os.geteuid()}/bus").exists() or not outlives_sessions():
        return command
    return [program, "--user", *_OPTIONS, "--description=Trainshed", "--", *command]


def outlives_sessions() -> bool:
    """Return whether what this user's systemd runs goes on as long as this process would."""
    uid = os.geteuid()
    if f"/user@{uid}.service/" in Path("/proc/self/cgroup").read_text():
        return True  # of a desktop's terminal: it ends with the session, too
    try:
        return (LINGER / pwd.getpwuid(uid).pw_name).exists()
    except KeyError:
        return False


def remedy() -> str:
    """Return the command after which there are cgroups for pods; empty where there is none."""
    if os.geteuid() == 0 or not BOOTED.is_dir() or shutil.which("systemd-run") is None or outlives_sessions():
        return ""
    if POLKIT.exists():
        return "loginctl enable-linger"
    try:
        return f"sudo loginctl enable-linger {pwd.getpwuid(os.geteuid()).pw_name}"
    except KeyError:
        return ""  # systemd knows users by name


def environment() -> dict[str, str]:
    """Return the variables by which this user's systemd is found."""
    runtime = f"/run/user/{os.geteuid()}"
    return {"XDG_RUNTIME_DIR": runtime, "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime}/bus"}
