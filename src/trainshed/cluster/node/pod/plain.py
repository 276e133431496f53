"""Containers that are plain processes: what cannot be one, and what one needs besides."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainshed.cluster.node.pod.images import RunImage
from trainshed.cluster.node.pod.sandboxspec import user_of
from trainshed.cluster.node.volumes import atomic
from trainshed.cluster.node.volumes.files import File
from trainshed.cluster.sandbox.addresses import API_ADDRESS, API_PORT
from trainshed.cluster.sandbox.model import Mount
from trainshed.kube.builtin.parts.pod.admission import MOUNT_PATH
from trainshed.kube.meta.objects import Object, section

CLIENT_PATH = "/var/run/trainshed"
KUBECONFIG = "KUBECONFIG"


class NotPlain(Exception):
    """The container takes namespaces."""


def check(pod: Object, container: Object, image: RunImage) -> None:
    """Raise NotPlain for a container that cannot be a plain process, or would have rights that it was not to have."""
    if image.root:
        raise NotPlain(
            f'image "{container["image"]}" has a root of its own, which a plain process cannot have: '
            "trainshed doctor says how to get namespaces"
        )
    user = user_of(section(pod["spec"], "securityContext"), section(container, "securityContext"))
    if user and os.geteuid() == 0:
        raise NotPlain(f"runAsUser {user}: a plain process would run as root of this machine")


def client_files(
    mounts: Sequence[Mount], directory: Path, namespace: str, env: Mapping[str, str]
) -> tuple[list[Mount], dict[str, str]]:
    """Return a kubeconfig and its variable for a container with a service account, whose clients look at a fixed path.

    It is written into the pod's directory. Nothing is for one that has a kubeconfig, or no account.
    """
    if KUBECONFIG in env or not any(mount.path == MOUNT_PATH for mount in mounts):
        return [], {}
    account = next(mount.source for mount in mounts if mount.path == MOUNT_PATH)
    place = directory / "client"
    atomic.write(place, {"config": File(kubeconfig(account, namespace).encode(), 0o600)})
    return [Mount(str(place), CLIENT_PATH, read_only=True)], {KUBECONFIG: f"{CLIENT_PATH}/config"}


def kubeconfig(account: str, namespace: str) -> str:
    """Return a kubeconfig with the credentials in the directory of a service account's token."""
    return f"""\
apiVersion: v1
kind: Config
clusters:
- name: cluster
  cluster: {{server: "https://{API_ADDRESS}:{API_PORT}", certificate-authority: "{account}/ca.crt"}}
users:
- name: account
  user: {{tokenFile: "{account}/token"}}
contexts:
- name: pod
  context: {{cluster: cluster, user: account, namespace: "{namespace}"}}
current-context: pod
"""
