"""projected volumes: several sources in one directory. Pure; tokens are obtained before.

Used by every pod: the API server mounts a token, the CA certificate and the namespace this way.
"""

from __future__ import annotations

from collections.abc import Iterable

from trainshed.cluster.node.references import Reference
from trainshed.cluster.node.volumes.configmap import ConfigMapVolume
from trainshed.cluster.node.volumes.downward_api import downward_files
from trainshed.cluster.node.volumes.files import DEFAULT_MODE, File
from trainshed.cluster.node.volumes.secret import SecretVolume
from trainshed.cluster.node.volumes.tokens import TokenRequest
from trainshed.cluster.node.volumes.volume import FileVolume, MountError, Setup, Source, fs_group
from trainshed.kube.meta.objects import Object, section, spec_of
from trainshed.kube.meta.pods import init_containers, main_containers

DEFAULT_EXPIRATION_SECONDS = 3600
_READABLE = 0o044
_CONFIGMAP, _SECRET = ConfigMapVolume(), SecretVolume()


class ProjectedVolume(FileVolume):
    """ConfigMaps, Secrets, fields and tokens together; a later source wins a path."""

    field = "projected"

    def referenced(self, pod: Object, name: str, source: Source) -> Iterable[Reference]:
        for part in source.get("sources") or ():
            if part.get("configMap"):
                yield "configmaps", part["configMap"].get("name", "")
            if part.get("secret"):
                yield "secrets", part["secret"].get("name", "")

    def token_requests(self, source: Source) -> Iterable[TokenRequest]:
        for part in source.get("sources") or ():
            if part.get("serviceAccountToken"):
                yield _request(part["serviceAccountToken"])

    def unsupported(self, source: Source) -> Iterable[tuple[str, str]]:
        for index, part in enumerate(source.get("sources") or ()):
            if part.get("clusterTrustBundle"):
                yield f"sources[{index}].clusterTrustBundle", "trust bundles are not offered"

    def files(self, setup: Setup) -> dict[str, File]:
        mode = setup.source.get("defaultMode", DEFAULT_MODE)
        namespace = setup.pod["metadata"].get("namespace", "")
        out: dict[str, File] = {}
        for part in setup.source.get("sources") or ():
            if part.get("configMap"):
                out.update(_CONFIGMAP.read(part["configMap"], setup.references, namespace, mode))
            elif part.get("secret"):
                out.update(_SECRET.read(part["secret"], setup.references, namespace, mode))
            elif part.get("downwardAPI") is not None:
                out.update(downward_files(part["downwardAPI"], setup.pod, setup.node, mode))
            elif part.get("serviceAccountToken"):
                token = setup.tokens[_request(part["serviceAccountToken"])]
                may = mode | _READABLE if _is_of_one_user(setup.pod) else mode
                out[part["serviceAccountToken"]["path"]] = File(token.text.encode(), may)
            elif part:
                kinds = ", ".join(sorted(part))
                raise MountError(f"projected source {kinds} is not supported by this node")
        return out


def _is_of_one_user(pod: Object) -> bool:
    """Return whether all containers run as the same user: a kubelet makes the tokens that user's, whatever their mode
    says (FsUserFrom in pkg/volume/util). Here the files are root's."""
    shared = section(spec_of(pod), "securityContext").get("runAsUser")
    containers = (*init_containers(pod), *main_containers(pod))
    users = {section(each, "securityContext").get("runAsUser", shared) for each in containers}
    return len(users) == 1 and None not in users and fs_group(pod) is None


def _request(source: Source) -> TokenRequest:
    seconds = source.get("expirationSeconds") or DEFAULT_EXPIRATION_SECONDS
    return TokenRequest(source.get("audience") or "", int(seconds))
