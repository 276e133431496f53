"""The small parts of the sandbox runtime: frames, state files, addresses, commands, capabilities."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.cluster.sandbox import files, wire
from trainshed.cluster.sandbox.client import doctor
from trainshed.cluster.sandbox.daemon import podfiles
from trainshed.cluster.sandbox.linux import credentials, mountinfo, netlink, process
from trainshed.cluster.sandbox.net import ipam


class TestFrames:
    @given(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=50))), st.integers(1, 20))
    def test_any_cutting_gives_the_same_frames(self, frames: list[tuple[int, bytes]], step: int) -> None:
        data = b"".join(wire.frame(kind, payload) for kind, payload in frames)
        reader = wire.FrameReader()
        found = []
        for start in range(0, len(data), step):
            found += [(kind, payload) for kind, payload, _ in reader.feed(data[start : start + step])]
        assert found == frames

    def test_a_stranger_is_refused(self) -> None:
        with pytest.raises(ValueError, match="frame of"):
            list(wire.FrameReader().feed(b"GET / HTTP/1.1\r\n"))


class TestStateFiles:
    def test_written_whole_or_not_at_all(self, tmp_path: Path) -> None:
        path = str(tmp_path / "state.json")
        assert files.read_state(path) is None
        files.write_state(path, {"a": 1})
        files.write_state(path, {"a": 2})
        assert files.read_state(path) == {"a": 2}
        assert [file.name for file in tmp_path.iterdir()] == ["state.json"]
        Path(path).write_text("{")
        assert files.read_state(path) is None

    def test_trees_go_whatever_a_pod_did_to_them(self, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "file").touch()
        tree = tmp_path / "tree"
        (tree / "locked" / "inner").mkdir(parents=True)
        (tree / "locked" / "inner" / "file").touch()
        (tree / "link").symlink_to(outside)
        os.mkfifo(tree / "fifo")
        (tree / "locked" / "inner").chmod(0)
        (tree / "locked").chmod(0o500)
        files.remove_tree(str(tree))
        files.remove_tree(str(tree))
        assert not tree.exists()
        assert (outside / "file").exists()


class TestAddresses:
    def test_in_use_until_released_and_across_restarts(self, tmp_path: Path) -> None:
        directory, pods = str(tmp_path / "addresses"), tmp_path / "pods"
        for uid in ("a", "b", "c"):
            (pods / uid / "sandbox").mkdir(parents=True)
        pool = ipam.AddressPool(directory, str(pods))
        assert [pool.allocate(uid) for uid in ("a", "b")] == ["10.88.0.2", "10.88.0.3"]
        ipam.release(directory, "10.88.0.2", "another")
        pool = ipam.AddressPool(directory, str(pods))
        assert pool.allocate("c") == "10.88.0.4"
        ipam.release(directory, "10.88.0.2", "a")
        ipam.release(directory, "10.88.0.2", "a")
        assert sorted(os.listdir(directory)) == ["10.88.0.3", "10.88.0.4"]  # noqa: PTH208

    def test_wraps_around_and_skips_what_is_in_use(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ipam, "LAST_POD", 4)
        pool = ipam.AddressPool(str(tmp_path), str(tmp_path))
        assert [pool.allocate("a") for _ in range(3)] == ["10.88.0.2", "10.88.0.3", "10.88.0.4"]
        with pytest.raises(OSError, match="no pod address is left"):
            pool.allocate("a")
        ipam.release(str(tmp_path), "10.88.0.3", "a")
        assert pool.allocate("a") == "10.88.0.3"

    def test_addresses_of_pods_without_a_trace_are_free(self, tmp_path: Path) -> None:
        directory = tmp_path / "addresses"
        ipam.AddressPool(str(directory), str(tmp_path / "pods")).allocate("gone")
        ipam.AddressPool(str(directory), str(tmp_path / "pods"))
        assert list(directory.iterdir()) == []


class TestCommands:
    def test_search(self, tmp_path: Path) -> None:
        (tmp_path / "tool").write_text("#!/bin/sh\n")
        with pytest.raises(process.CommandError) as caught:
            process.find_command("tool", str(tmp_path))
        assert caught.value.exit_code == 126
        (tmp_path / "tool").chmod(0o755)
        assert process.find_command("tool", f"/nowhere:{tmp_path}") == str(tmp_path / "tool")
        assert process.find_command("sh", None).endswith("/sh")

    @pytest.mark.parametrize(
        ("name", "code"), [("", 127), ("no-such", 127), ("/no/such", 127), ("/etc", 126)]
    )
    def test_not_found(self, name: str, code: int) -> None:
        with pytest.raises(process.CommandError) as caught:
            process.find_command(name, "/bin")
        assert caught.value.exit_code == code


class TestCapabilities:
    def test_sets(self) -> None:
        default = credentials.capability_set(False, [], [])
        assert default == 0xA80425FB
        assert credentials.capability_set(False, [], ["ALL"]) == 0
        assert credentials.capability_set(False, ["NET_BIND_SERVICE"], ["ALL"]) == 1 << 10
        assert credentials.capability_set(False, ["CAP_SYS_ADMIN"], []) == default | 1 << 21
        assert credentials.capability_set(True, [], []) == credentials.capability_set(False, ["ALL"], [])
        with pytest.raises(ValueError, match="unknown capability 'FLY'"):
            credentials.capability_set(False, ["FLY"], [])


class TestPodFiles:
    SPEC: ClassVar[dict[str, Any]] = {
        "host_network": False,
        "hostname": "worker-0",
        "fqdn": "",
        "hosts": [["10.1.1.1", ["a", "a.example"]]],
        "nameservers": ["10.88.0.1"],
        "searches": ["default.svc.cluster.local", "svc.cluster.local"],
        "dns_options": ["ndots:5"],
    }

    def test_hosts(self) -> None:
        lines = podfiles.hosts(self.SPEC, "10.88.0.9", "127.0.0.1 laptop\n").splitlines()
        assert lines[0] == "127.0.0.1\tlocalhost"
        assert lines[-2:] == ["10.88.0.9\tworker-0", "10.1.1.1\ta a.example"]
        long = podfiles.hosts({**self.SPEC, "fqdn": "worker-0.job.ns.svc.cluster.local"}, "10.88.0.9", "")
        assert long.splitlines()[-2] == "10.88.0.9\tworker-0.job.ns.svc.cluster.local\tworker-0"
        shared = podfiles.hosts({**self.SPEC, "host_network": True}, "", "127.0.0.1 laptop\n")
        assert shared == "127.0.0.1 laptop\n10.1.1.1\ta a.example\n"

    def test_resolv_conf(self) -> None:
        assert podfiles.resolv_conf(self.SPEC, "").splitlines() == [
            "search default.svc.cluster.local svc.cluster.local",
            "nameserver 10.88.0.1",
            "options ndots:5",
        ]
        assert (
            podfiles.resolv_conf({**self.SPEC, "nameservers": []}, "nameserver 1.1.1.1\n")
            == "nameserver 1.1.1.1\n"
        )


class TestNetlink:
    @given(st.integers(1, 60), st.binary(max_size=30))
    def test_attributes_are_aligned(self, kind: int, value: bytes) -> None:
        encoded = netlink.attribute(kind, value)
        length, found = struct.unpack_from("=HH", encoded)
        assert (found, encoded[4:length]) == (kind, value)
        assert len(encoded) % 4 == 0

    def test_headers_have_the_kernel_s_sizes(self) -> None:
        assert len(netlink.interface()) == 16
        assert netlink.message(16, 5, 7, b"1234") == struct.pack("=IHHII", 20, 16, 5, 7, 0) + b"1234"

    def test_addresses_of_interfaces_follow_the_ip(self) -> None:
        assert netlink.address_of("10.88.1.2").hex(":") == "0a:58:0a:58:01:02"


class TestMounts:
    def test_mountinfo(self, tmp_path: Path) -> None:
        file = tmp_path / "mountinfo"
        file.write_text(
            "1 0 8:1 / / rw shared:1 - ext4 /dev/sda rw\n"
            "2 1 0:5 / /with\\040space rw - tmpfs tmpfs rw\n"
            "3 1 0:6 / /usr/lib/wsl rw master:1 propagate_from:2 - overlay none rw\n"
        )
        mounts = mountinfo.read_mounts(str(file))
        assert mounts == {"/": "ext4", "/with space": "tmpfs", "/usr/lib/wsl": "overlay"}
        assert mountinfo.above(mounts) == {"/", "/usr", "/usr/lib"}
        assert mountinfo.above(["/"]) == set()


APPARMOR = "proc/sys/kernel/apparmor_restrict_unprivileged_userns"
CLONE = "proc/sys/kernel/unprivileged_userns_clone"
PROFILE = "proc/self/attr/apparmor/current"
STATUS = "proc/self/status"
UNPRIVILEGED = "Name:\tpython3\nCapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\n"
ALMIGHTY = "Name:\tpython3\nCapEff:\t000001ffffffffff\nCapBnd:\t000001ffffffffff\n"


def recorded(root: Path, facts: dict[str, str]) -> None:
    """Write what another machine's files say."""
    for name, text in facts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class TestDoctor:
    @pytest.mark.parametrize(
        ("file", "value", "expected"),
        [
            ("proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
            ("proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
            (".dockerenv", "", "seccomp=unconfined"),
        ],
    )
    def test_remedies(self, tmp_path: Path, file: str, value: str, expected: str) -> None:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
        message, remedy = doctor.explain("user", "Operation not permitted", tmp_path)
        assert expected in remedy
        assert message

    @pytest.mark.parametrize("step", ["user", "map", "mount", "network"])
    def test_apparmor_is_named_for_those_without_rights(self, tmp_path: Path, step: str) -> None:
        recorded(tmp_path, {APPARMOR: "1", STATUS: UNPRIVILEGED})
        message, remedy = doctor.explain(step, "Permission denied", tmp_path)
        assert "AppArmor" in message
        assert remedy.startswith("sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
        assert remedy.endswith(f"`userns,` for {os.path.realpath(sys.executable)}")

    @pytest.mark.parametrize(
        ("step", "facts", "not_named"),
        [
            ("mount", {APPARMOR: "1", STATUS: ALMIGHTY}, "AppArmor"),
            ("overlay", {APPARMOR: "1", STATUS: UNPRIVILEGED}, "AppArmor"),
            ("bridge", {APPARMOR: "1", STATUS: UNPRIVILEGED}, "AppArmor"),
            ("user", {CLONE: "0", STATUS: ALMIGHTY}, "unprivileged_userns_clone"),
            ("overlay", {CLONE: "0", STATUS: UNPRIVILEGED}, "unprivileged_userns_clone"),
            ("overlay", {"proc/sys/user/max_user_namespaces": "0"}, "max_user_namespaces"),
        ],
    )
    def test_a_setting_is_not_blamed_for_what_it_does_not_refuse(
        self, tmp_path: Path, step: str, facts: dict[str, str], not_named: str
    ) -> None:
        recorded(tmp_path, facts)
        assert not_named not in "".join(doctor.explain(step, "Operation not permitted", tmp_path))

    @pytest.mark.parametrize(("step", "kind"), [("user", "user"), ("mount", "mnt"), ("network", "net")])
    def test_kinds_of_namespaces_that_the_machine_has_none_of(
        self, tmp_path: Path, step: str, kind: str
    ) -> None:
        recorded(tmp_path, {f"proc/sys/user/max_{kind}_namespaces": "0"})
        message, remedy = doctor.explain(step, "No space left on device", tmp_path)
        assert f"user.max_{kind}_namespaces is 0" in message
        assert remedy == f"sudo sysctl -w user.max_{kind}_namespaces=15000"

    @pytest.mark.parametrize("step", ["user", "map", "mount", "network"])
    def test_the_apparmor_profile_of_the_interpreter(self, tmp_path: Path, step: str) -> None:
        recorded(tmp_path, {PROFILE: "/usr/bin/python3.11 (enforce)\n", STATUS: UNPRIVILEGED})
        message, remedy = doctor.explain(step, "cannot write setgroups: Permission denied", tmp_path)
        assert "AppArmor profile /usr/bin/python3.11" in message
        assert remedy == "printf %s /usr/bin/python3.11 | sudo tee /sys/kernel/security/apparmor/.remove"

    @pytest.mark.parametrize("mode", ["unconfined", "trainshed (unconfined)", "python (complain)"])
    def test_a_profile_that_refuses_nothing(self, tmp_path: Path, mode: str) -> None:
        recorded(tmp_path, {PROFILE: f"{mode}\n"})
        assert "AppArmor" not in "".join(doctor.explain("mount", "Operation not permitted", tmp_path))

    @pytest.mark.parametrize(
        ("profile", "named"), [("docker-default (enforce)", True), ("unconfined", False), ("", False)]
    )
    def test_the_apparmor_profile_of_an_engine(self, tmp_path: Path, profile: str, named: bool) -> None:
        recorded(tmp_path, {".dockerenv": "", PROFILE: profile})
        message, remedy = doctor.explain("mount", "Permission denied", tmp_path)
        assert ("AppArmor profile docker-default" in message) == named
        assert ("--security-opt apparmor=unconfined" in remedy) == named
        assert ("appArmorProfile Unconfined" in remedy) == named

    def test_cgroups_are_offered_for_what_they_keep(self) -> None:
        kept = {"cpu": "affinity", "memory": "cgroup: memory.max", "pids": "pid namespace (kernel.pid_max)"}
        checks = doctor.limit_checks(kept | {"ephemeral-storage": "measured"}, "enable")
        assert [check.name for check in checks if "`enable`" in check.detail] == ["limits of cpu"]

    @pytest.mark.parametrize("step", ["overlay", "bridge", "map", "lock", "start", "mount", "unheard-of"])
    def test_every_step_has_a_diagnosis(self, tmp_path: Path, step: str) -> None:
        message, remedy = doctor.explain(step, "Some error", tmp_path)
        assert message
        assert remedy

    def test_checks_of_this_machine(self, tmp_path: Path) -> None:
        checks = doctor.diagnose(tmp_path)
        assert checks[0].name == "platform"
        assert all(check.ok or check.remedy for check in checks)
        assert list(tmp_path.iterdir()) == []

    def test_a_file_system_that_runs_no_programs_is_told_and_in_nobodys_way(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[Path] = []

        def noexec(path: str) -> SimpleNamespace:
            asked.append(Path(path).parent)
            return SimpleNamespace(f_flag=os.ST_NOEXEC | os.ST_NODEV)

        monkeypatch.setattr(os, "statvfs", noexec)
        found = {check.name: check for check in doctor.diagnose(tmp_path)}
        check = found["programs on the state directory"]
        assert (check.ok, check.vital, "noexec" in check.detail) == (False, False, True)
        assert asked == [tmp_path]
        assert found["user namespaces"].vital, "what pods cannot do without"


MOUNTS = """\
20 1 8:1 / / rw - ext4 /dev/sda1 rw
21 20 0:40 /@ /srv rw - btrfs /dev/sdb rw
22 20 0:40 /@home /home rw - btrfs /dev/sdb rw
23 20 0:40 / /mnt/top\\040level rw - btrfs /dev/sdb rw
24 20 0:40 /@home/u/.state /data rw - btrfs /dev/sdb rw
25 20 0:40 /@home/u/.state/pki /keys rw - btrfs /dev/sdb rw
26 20 0:40 /@home/u/.state2 /not rw - btrfs /dev/sdb rw
27 20 0:41 /@home /other rw - btrfs /dev/sdc rw
"""


@pytest.mark.parametrize(
    ("path", "places"),
    [
        ("/home/u/.state", ["/data", "/keys", "/mnt/top level/@home/u/.state"]),
        ("/home/u/.state2", ["/mnt/top level/@home/u/.state2", "/not"]),
        ("/usr/x", []),
    ],
)
def test_a_directory_is_found_wherever_it_is_mounted(tmp_path: Path, path: str, places: list[str]) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS)
    assert mountinfo.other_places(path, str(table)) == places


def test_pods_are_spread_over_groups_of_blocks_where_that_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system of which the flags are known, then one that has none."""
    flags, written = 0x00080000, []

    def ioctl(fd: int, request: int, argument: bytes) -> bytes:
        if request == 0x40086602:
            written.append(int.from_bytes(argument[:4], sys.byteorder))
            return argument
        assert request == 0x80086601 and os.fstat(fd).st_ino == tmp_path.stat().st_ino
        return (written or [flags])[-1].to_bytes(4, sys.byteorder) + bytes(4)

    def refused(fd: int, request: int, argument: bytes) -> bytes:
        raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    files.spread(tmp_path)
    files.spread(tmp_path)
    assert written == [flags | 0x00020000], "others stay, and it is written once"
    monkeypatch.setattr(fcntl, "ioctl", refused)
    files.spread(tmp_path)
    files.spread(tmp_path / "missing")
