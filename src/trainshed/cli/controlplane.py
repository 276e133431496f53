"""The control plane's process: joins the cluster and the operator, which know nothing of each other."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from trainshed.cli import newcluster
from trainshed.cluster.apiserver.core import Admission, AdmissionCheck
from trainshed.cluster.control.controlplane import Options, run
from trainshed.cluster.control.errors import CannotStart
from trainshed.cluster.control.launcher import Report
from trainshed.cluster.node.fake.kept import kept_fakes
from trainshed.cluster.node.pod.images import Mode
from trainshed.cluster.node.pod.unsupported import privileged_containers
from trainshed.cluster.paths import StateError, StatePaths, write_private
from trainshed.cluster.sandbox import files
from trainshed.cluster.sandbox.model import Isolation
from trainshed.cluster.store.transform import PLAIN, Transformer
from trainshed.jobs.engine.model import OperatorOptions
from trainshed.kube.builtin.registry import RESOURCES
from trainshed.kube.meta.causes import forbidden
from trainshed.kube.meta.errors import ApiError, Cause
from trainshed.kube.meta.objects import Object
from trainshed.kube.meta.resources import PODS, Resource
from trainshed.kube.wire.body import decode_value
from trainshed.operator.install import AUTO, definition_names, embedded_objects, embedded_options
from trainshed.tekton import crds

if TYPE_CHECKING:
    from trainshed.cluster.apiserver.oidc.configuration import Configuration
    from trainshed.kube.policy.audit import Policy

T = TypeVar("T")

LARGE_BYTES = 16 * 1024


class Arguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What `trainshed up` tells the process, by the names of its flags."""

    home: Path
    report_fd: int | None = None
    nodes: int = 0
    port: int = 0
    allow_privileged: bool = False
    gang_scheduler_name: str = ""
    images: Mode = "machine"
    isolation: Isolation | None = None
    audit_policy: Path | None = None
    audit_log: Path | None = None
    authentication_config: Path | None = None
    encryption_provider_config: Path | None = None
    encrypt_secrets: bool = False


_SWITCHES = ("allow_privileged", "encrypt_secrets")


def _arguments(words: Iterable[str]) -> Arguments:
    """Return what the command line says. ValueError when it is none of ours.

    `argparse` would be half a MiB, for words that no person types.
    """
    given: dict[str, str | bool | None] = {}
    rest = iter(words)
    for word in rest:
        flag, is_joined, value = word.partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        given[name] = value if is_joined else name in _SWITCHES or next(rest, None)
    return msgspec.convert(given, Arguments, strict=False, dec_hook=lambda kind, value: kind(value))


def main(program: str) -> None:
    """Run the control plane of one state directory until it is told to stop; `program` is how it was called."""
    try:
        args = _arguments(sys.argv[1:])
    except ValueError as error:
        sys.stderr.write(f"{program}: error: {error}\n")
        sys.exit(2)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    report = _reporter(args.report_fd)
    paths = StatePaths(args.home)
    try:
        if args.gang_scheduler_name:
            write_private(paths.gang_scheduler, args.gang_scheduler_name.encode())
        if args.isolation:
            write_private(paths.isolation, args.isolation.encode())
        gang = paths.kept_gang() or AUTO
        operator = embedded_options(gang)
        fakes, lifecycles = kept_fakes(paths)
        encryption_file = args.encryption_provider_config or paths.kept_encryption()
        if encryption_file is None and args.encrypt_secrets:
            encryption_file = paths.encryption
            if not encryption_file.exists():
                _generate(encryption_file)
        options = Options(
            nodes=args.nodes,
            port=args.port,
            new=newcluster.steps,
            install=lambda is_new: _steps(_installed(gang, is_new=is_new)),
            admission=admission(gang) | pod_admission(allow_privileged=args.allow_privileged),
            scheduler_names=(operator.gang_scheduler,),
            images=args.images,
            isolation=paths.kept_isolation(),
            pids=paths.kept_pids(),
            audit=_audit(args.audit_policy, args.audit_log or paths.audit_log),
            fake_nodes=fakes,
            fake_lifecycles=lifecycles,
            authentication=_authentication(args.authentication_config),
            encryption=_encryption(encryption_file),
            opened=lambda: _keep(paths, encryption_file),
        )
        _run(run(paths, options, report))
    except (CannotStart, StateError) as error:
        report(Report(error=str(error), hint=error.hint))
        sys.exit(1)
    except OSError as error:
        if not files.is_no_room(error):
            raise
        logging.exception("the state directory cannot be written")
        report(
            Report(
                error=f"cannot write the state directory {args.home}: {error.strerror}",
                hint="make room there, then try again",
            )
        )
        sys.exit(1)


def _audit(policy: Path | None, log: Path) -> tuple[Policy, Path] | None:
    """Return the policy in a file, and where it writes. Raises CannotStart for one that cannot be read."""
    if policy is None:
        return None
    from trainshed.kube.policy import audit

    return _read(policy, "audit policy", audit.read, "docs/how-to/audit.md has an example"), log


def _authentication(file: Path | None) -> Configuration | None:
    """Return the configuration in a file. Raises CannotStart for one that cannot be read."""
    if file is None:
        return None
    from trainshed.cluster.apiserver.oidc import configuration as oidc

    return _read(
        file,
        "authentication configuration",
        oidc.read,
        "docs/how-to/users-and-certificates.md has an example",
    )


def _generate(file: Path) -> None:
    """Write an encryption configuration with a key of its own."""
    from trainshed.cluster import encryption
    from trainshed.kube.wire import yamltext

    write_private(file, yamltext.dump(encryption.generated()).encode())


def _encryption(file: Path | None) -> Transformer:
    """Return what encrypts objects as a file says. Raises CannotStart for one that cannot be read."""
    if file is None:
        return PLAIN
    from trainshed.cluster import encryption  # few encrypt

    hint = (
        "docs/how-to/encrypt-secrets.md has an example; without the keys in it, what they encrypted is lost"
    )
    return _read(file, "encryption configuration", encryption.read, hint)


def _keep(paths: StatePaths, file: Path | None) -> None:
    """Remember an encryption configuration, by which the store could be opened, for the next start."""
    if file is not None:
        write_private(paths.encryption_file, str(file).encode())


def _read(file: Path, what: str, read: Callable[[object], T], hint: str) -> T:
    try:
        return read(decode_value(file.read_bytes(), "application/yaml"))
    except (OSError, ValueError, ApiError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise CannotStart(f"cannot use the {what} {file}: {why}", hint) from error


def _run(main: object) -> None:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)  # type: ignore[arg-type]  # a coroutine


def _reporter(descriptor: int | None) -> Callable[[Report], None]:
    """Return what writes reports to the pipe of the starting command, which closes once that is told `ready`."""
    pipe = None
    if descriptor is not None:
        # Were a daemon to keep it open, the starting command would not see this process end.
        os.set_inheritable(descriptor, False)
        pipe = os.fdopen(descriptor, "wb", buffering=0)

    def report(line: Report) -> None:
        if pipe is None or pipe.closed:
            return
        try:
            pipe.write(msgspec.json.encode(line) + b"\n")
        except BrokenPipeError:
            pipe.close()
        if line.ready:
            pipe.close()

    return report


def admission(gang: str = AUTO) -> dict[str, AdmissionCheck]:
    """Return the checks of all our kinds, by group resource; `gang` is as for `embedded_options`."""
    options = embedded_options(gang)
    return {name: _check_of(name, options) for name in definition_names()}


def pod_admission(*, allow_privileged: bool) -> dict[str, AdmissionCheck]:
    """Return the check of pods: privileged containers take a flag where they are close to root on the machine.

    The words are those of an API server that was started without its own --allow-privileged.
    """
    if allow_privileged or os.geteuid() != 0:
        return {}
    text = "disallowed by cluster policy: start the cluster with `trainshed up --allow-privileged`"

    def check(obj: Object, old: Object | None, operation: str) -> Admission:
        before = () if old is None else privileged_containers(old)
        paths = privileged_containers(obj) if operation in ("CREATE", "UPDATE") else ()
        return Admission(causes=[forbidden(path, text) for path in paths if path not in before])

    return {PODS.group_resource: check}


def _check_of(group_resource: str, options: OperatorOptions) -> AdmissionCheck:
    """Return the check that says what the operator's webhook says on a real cluster, in the same words."""

    def check(obj: Object, old: Object | None, operation: str) -> Admission:
        # The kinds come with the first job: they take a MiB.
        from trainshed.api.registry import KINDS
        from trainshed.jobs.registry import review

        kind = next(kind for kind in KINDS.values() if kind.resource.group_resource == group_resource)
        if operation == "DELETE":
            return Admission(warnings=kind.deletion_warnings)
        verdict = review(kind, obj, old, options)
        refusal = None
        if verdict.errors:
            causes = [Cause("FieldValueInvalid", str(e), e.path) for e in verdict.errors]
            refusal = ApiError(403, "Forbidden", kind.denied(verdict.errors), causes=causes)
        return Admission(warnings=verdict.warnings, refusal=refusal)

    return check


def _installed(gang: str, *, is_new: bool) -> Iterator[Object]:
    """Yield what is applied once the cluster is up; a new one holds the definitions."""
    return itertools.chain(() if is_new else crds.crds(), embedded_objects(gang=gang, defined=is_new))


def _steps(objects: Iterable[Object]) -> Iterator[list[tuple[Resource, bytes]]]:
    """Return the objects by when they may be applied: namespaces first, what makes pods last.

    Large ones go one by one: each takes several MiB while it is checked, and what is taken at once is not given back.
    """
    first: list[tuple[Resource, bytes]] = []
    large: list[list[tuple[Resource, bytes]]] = []
    then: list[tuple[Resource, bytes]] = []
    last: list[tuple[Resource, bytes]] = []
    for obj in objects:
        item = _RESOURCES[obj["apiVersion"], obj["kind"]], msgspec.json.encode(obj)
        if len(item[1]) > LARGE_BYTES:
            large.append([item])
        else:
            {"Namespace": first, "Deployment": last}.get(obj["kind"], then).append(item)
    return _taken([first, *large, then, last])


def _taken(steps: list[list[tuple[Resource, bytes]]]) -> Iterator[list[tuple[Resource, bytes]]]:
    """Yield the steps and keep none."""
    while steps:
        yield steps.pop(0)


_RESOURCES = {(info.resource.api_version, info.resource.kind): info.resource for info in RESOURCES}
