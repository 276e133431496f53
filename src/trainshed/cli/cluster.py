"""Commands about the local cluster: up, down, status."""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from trainshed.cli import imagespace
from trainshed.cli.console import err, is_interactive, note, out, user_errors
from trainshed.cli.kubeconfig import merge_context
from trainshed.cli.options import TextOrJson
from trainshed.cluster.paths import StatePaths, write_private
from trainshed.kube.meta.duration import human
from trainshed.sdk import contexts, local
from trainshed.sdk.errors import REFUSED, UserError
from trainshed.sdk.local import AS_LAST_TIME, ApiFiles, ClusterStatus, Started, StartOptions

if TYPE_CHECKING:
    from trainshed.cluster.node.fake.kept import Fakes


def up(
    nodes: Annotated[
        int,
        typer.Option(
            min=0, max=16, help="Virtual nodes to show; they share this machine. 0 keeps those of last time."
        ),
    ] = 0,
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, help="Port of the API on 127.0.0.1; 0 keeps the last or takes a free one."
        ),
    ] = 0,
    allow_privileged: Annotated[
        bool,
        typer.Option(
            "--allow-privileged",
            help="Let pods have privileged containers in a cluster of root's, where they are close to root.",
        ),
    ] = False,
    gang_scheduler_name: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Who places the pods of a job together: auto (jobs with a schedulingPolicy, by Volcano's API), "
            "volcano or the name of one of scheduler-plugins (every job), None. Nothing keeps that of last time.",
        ),
    ] = "",
    images: Annotated[
        Literal["machine", "pull", "strict"] | None,
        typer.Option(
            help="What containers run in whose image is not in the store: this machine's root and registered "
            "directories (machine, the default), the image from its registry, else the machine's root (pull), or the "
            "image from its registry, else they wait (strict).",
            show_default=False,
        ),
    ] = None,
    isolation: Annotated[
        Literal["namespaces", "plain"] | None,
        typer.Option(
            help="What keeps pods apart: namespaces of the kernel (the default), or where it gives none to ordinary "
            "users plain, where pods are processes of yours with the limits that docs/how-to/unprivileged-setup.md "
            "lists. Nothing keeps that of last time.",
            show_default=False,
        ),
    ] = None,
    audit_policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write down requests as this audit.k8s.io/v1 Policy says, for as long as the cluster is up.",
            show_default=False,
        ),
    ] = None,
    audit_log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where to, one JSON object a line; log/audit.log of the state directory by default.",
            show_default=False,
        ),
    ] = None,
    fake_nodes: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=5000,
            help="Further nodes that run nothing: their pods go through states that are data, for tests of scale. "
            "Nothing keeps those of last time.",
            show_default=False,
        ),
    ] = None,
    fake_lifecycles: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Those states, with --fake-nodes; without, pods run for ever."
        ),
    ] = None,
    image_space: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="How much of the disk images may take, as 40Gi; half of the file system until it is said once. Above, "
            "pulled images go that were not used for the longest time. Nothing keeps that of last time.",
        ),
    ] = "",
    image_gc_high_threshold: Annotated[
        int | None,
        typer.Option(
            min=1, max=100, help="Percent of it above which images go; 85 at first.", show_default=False
        ),
    ] = None,
    image_gc_low_threshold: Annotated[
        int | None,
        typer.Option(
            min=0, max=100, help="Percent of it down to which they go; 80 at first.", show_default=False
        ),
    ] = None,
    pod_max_pids: Annotated[
        int | None,
        typer.Option(
            min=-1,
            help="How many processes and threads a pod may have, -1 for any number; until it is said once 4096, or 256 "
            "a core if that is more. Nothing keeps that of last time.",
            show_default=False,
        ),
    ] = None,
    authentication_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Take tokens of the OpenID Connect providers in this AuthenticationConfiguration, for as long as the "
            "cluster is up.",
            show_default=False,
        ),
    ] = None,
    encrypt_secrets: Annotated[
        bool,
        typer.Option(
            "--encrypt-secrets",
            help="Encrypt Secrets on the disk from now on, with a key that is made in the state directory.",
        ),
    ] = False,
    encryption_provider_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Encrypt on the disk what this EncryptionConfiguration says, with its keys. Nothing keeps the file of "
            "last time.",
            show_default=False,
        ),
    ] = None,
    merge: Annotated[
        bool,
        typer.Option(
            "--merge", help="Also merge a `trainshed context into your kubeconfig and switch to it."
        ),
    ] = False,
) -> None:
    """Start the local cluster, if it is not up. Prints the line that points kubectl at it."""
    with user_errors():
        if audit_log is not None and audit_policy is None:
            raise UserError("--audit-log without --audit-policy writes nothing", "add --audit-policy FILE")
        if pod_max_pids is not None:
            write_private(StatePaths.default().prepare().pod_max_pids, str(pod_max_pids).encode())
        imagespace.keep(image_space, image_gc_high_threshold, image_gc_low_threshold)
        api = ApiFiles(
            audit_policy=audit_policy,
            audit_log=audit_log,
            authentication_config=authentication_config,
            encryption_provider_config=encryption_provider_config,
            encrypt_secrets=encrypt_secrets,
        )
        options = StartOptions(
            nodes=nodes,
            port=port,
            allow_privileged=allow_privileged,
            gang_scheduler=gang_scheduler_name,
            images=images or "",
            isolation=isolation or "",
            api=api,
        )
        started = ensure_up(options, _fakes(fake_nodes, fake_lifecycles))
        asked = options.says_anything or fake_nodes is not None or pod_max_pids is not None
        if started.already and (asked or port not in (0, started.info.port)):
            note("the cluster runs already: options are for the next start, after trainshed down")
        if merge:
            merge_context(started.paths, make_current=True)
        command = f"export KUBECONFIG={shlex.quote(str(started.paths.kubeconfig))}"
        out.print(escape(command), soft_wrap=True)


def _fakes(count: int | None, lifecycles: Path | None) -> Fakes | None:
    if count is None:
        if lifecycles is not None:
            raise UserError("--fake-lifecycles says what becomes of pods on fake nodes", "add --fake-nodes N")
        return None
    from trainshed.cluster.node.fake.kept import Fakes

    return Fakes(count, "" if lifecycles is None else lifecycles.read_text())


def ensure_up(options: StartOptions = AS_LAST_TIME, fakes: Fakes | None = None) -> Started:
    """Return the running cluster, starting it if need be. Raises StartFailed or StateError."""
    paths = StatePaths.default()
    if local.running(paths) is not None:
        started = local.start(paths)
    else:
        if fakes is not None:
            from trainshed.cluster.node.fake.kept import keep_fakes

            keep_fakes(paths.prepare(), fakes)
        with err.status("starting the cluster") as spinner:
            started = local.start(
                paths, options, progress=lambda step: spinner.update(f"starting the cluster: {step}")
            )
    if started.mended:
        note(f"{escape(str(paths.kubeconfig))} was damaged: written again")
    if not started.already:
        note(f"cluster started in {started.seconds:.1f} s, state in {escape(str(paths.root))}")
        if paths.kept_isolation() == "plain":
            note(
                "pods are plain processes of yours (--isolation plain): trainshed doctor says what that means"
            )
    return started


def down(
    purge: Annotated[
        bool, typer.Option("--purge", help="Also delete all state: jobs, logs, provisioned volumes.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")] = False,
) -> None:
    """Stop the cluster and every pod. `trainshed up` brings it back; --purge forgets it for good.

    Asks before it stops jobs that run; where nobody can be asked it says which, and goes on. Volumes are not deleted
    without being asked: there --purge needs --yes.
    """
    with user_errors():
        paths = StatePaths.default()
        lost = (
            f"delete the provisioned volumes in {paths.volumes}" if purge and local.has_volumes(paths) else ""
        )
        if lost and not yes and not is_interactive():
            raise UserError(f"--purge deletes provisioned volumes in {paths.volumes}", "add --yes")
        if not paths.root.is_dir():
            note("nothing to stop")
            return
        stopped = asyncio.run(local.unfinished_jobs(paths))
        if stopped:
            note(escape(f"jobs that have not finished: {', '.join(stopped)}"))
        what = " and ".join([*(["stop them"] if stopped else []), *([lost] if lost else [])])
        if what and not yes and is_interactive():
            _ask(f"{what[0].upper()}{what[1:]}?")
        was_running = asyncio.run(local.stop(paths))
        note("cluster stopped" if was_running else "the cluster was not running")
        if purge:
            _forget(paths)
            asyncio.run(local.purge(paths))
            note(f"deleted {escape(str(paths.root))}")


def _ask(question: str) -> None:
    """Return when the user says yes; end the command, and say that nothing was done, when not."""
    if not typer.confirm(question, err=True):
        note("nothing was done")
        raise typer.Exit(REFUSED)


def _forget(paths: StatePaths) -> None:
    """Take the context of this state directory out of the user's kubeconfig, if it is there."""
    try:
        contexts.unmerge(paths)
    except UserError as error:
        note(f"{escape(str(contexts.user_file()))} stays as it is: {escape(str(error))}")


def status(output: TextOrJson = "text") -> None:
    """Tell what is up, where, and how much memory it takes. Exit code 1 when the cluster is not running."""
    with user_errors():
        found = local.status(StatePaths.default())
        if output == "json":
            facts = msgspec.to_builtins(found)
            out.print_json(json.dumps({name: value for name, value in facts.items() if value is not None}))
        else:
            _print(found)
        if not found.running:
            raise typer.Exit(1)


def _print(found: ClusterStatus) -> None:
    table = Table.grid(padding=(0, 2))
    if found.running:
        table.add_row("cluster", f"running for {human(found.uptime_seconds or 0.0)}")
        table.add_row("server", found.server)
        table.add_row("kubeconfig", found.kubeconfig)
        table.add_row("version", found.version)
    else:
        table.add_row("cluster", "not running (trainshed up starts it)")
    table.add_row("state", found.state)
    for text in found.damaged or ():
        table.add_row("[red]damaged[/]", escape(text))
    for name, keeper in (found.limits or {}).items():
        table.add_row(f"limits of {name}", escape(keeper))
    if found.services is not None:
        table.add_row("Services led on by", escape(found.services))
    if found.isolation is not None:
        plain = found.isolation == "plain"
        table.add_row("isolation", "none: pods are plain processes of yours" if plain else found.isolation)
    if found.images is not None:
        table.add_row("images", imagespace.use_text(found.images))
    for process in found.processes:
        table.add_row(process.role, f"pid {process.pid}, {process.rss_bytes / 2**20:.0f} MiB")
    if found.processes:
        table.add_row("memory", f"{found.rss_bytes / 2**20:.0f} MiB in {len(found.processes)} processes")
    out.print(table)
