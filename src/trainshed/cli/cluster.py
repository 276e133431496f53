"""Commands about the local cluster: up, down, status, doctor, kubeconfig."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer
from rich.markup import escape
from rich.table import Table

from trainshed.cli.console import err, note, out, user_errors
from trainshed.cluster.control import kubeconfig as kubeconfigs
from trainshed.cluster.control import launcher
from trainshed.cluster.paths import StatePaths
from trainshed.kube.meta.duration import elapsed
from trainshed.sdk.errors import UNAVAILABLE, UserError

MODULE = "trainshed.cli.serve"
T = TypeVar("T")

Output = Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print.")]


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
    merge: Annotated[
        bool,
        typer.Option(
            "--merge", help="Also merge a `trainshed` context into your kubeconfig and switch to it."
        ),
    ] = False,
) -> None:
    """Start the local cluster, if it is not up. Prints the line that points kubectl at it."""
    with user_errors():
        was_running = launcher.running(StatePaths.default())
        paths = ensure_up(["--nodes", str(nodes), "--port", str(port)])
        if was_running and (nodes or port not in (0, was_running.port)):
            note("the cluster runs already: --nodes and --port are for the next start, after trainshed down")
        if merge:
            _merge(paths, make_current=True)
        out.print(f"export KUBECONFIG={escape(shlex.quote(str(paths.kubeconfig)))}", soft_wrap=True)


def ensure_up(arguments: list[str] | None = None) -> StatePaths:
    """Return the paths of the running cluster, starting it if need be. Raises UserError or StateError."""
    paths = StatePaths.default().prepare()
    if (info := launcher.running(paths)) is not None:
        _mend_kubeconfig(paths, info.port)
        return paths
    started = time.monotonic()
    try:
        with err.status("starting the cluster") as spinner, launcher.starting(paths):
            if launcher.running(paths) is not None:  # another command has started it meanwhile
                return paths
            launcher.start(
                paths, MODULE, arguments or [], lambda step: spinner.update(f"starting the cluster: {step}")
            )
    except launcher.StartFailed as error:
        raise UserError(str(error), error.hint, UNAVAILABLE) from error
    note(f"cluster started in {time.monotonic() - started:.1f} s, state in {escape(str(paths.root))}")
    return paths


def _mend_kubeconfig(paths: StatePaths, port: int) -> None:
    """Write the running cluster's own kubeconfig again if somebody emptied or broke it."""
    config = kubeconfigs.of_cluster(paths, port)
    if not kubeconfigs.leads_to(paths.kubeconfig, config):
        kubeconfigs.write(paths.kubeconfig, config)
        note(f"{escape(str(paths.kubeconfig))} was damaged: written again")


def down(
    purge: Annotated[
        bool, typer.Option("--purge", help="Also delete all state: jobs, logs, provisioned volumes.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before --purge.")] = False,
) -> None:
    """Stop the cluster and every pod. `trainshed up` brings it back; --purge forgets it for good."""
    from trainshed.cli.jobs import is_interactive

    with user_errors():
        paths = StatePaths.default()
        if purge and not yes and paths.volumes.is_dir() and any(paths.volumes.iterdir()):
            if not is_interactive():
                raise UserError(f"--purge deletes provisioned volumes in {paths.volumes}", "add --yes")
            typer.confirm(
                f"Delete the provisioned volumes in {paths.volumes} and all other state?",
                abort=True,
                err=True,
            )
        if not paths.root.is_dir():
            note("nothing to stop")
            return
        paths.prepare()
        was_running = launcher.stop(paths)
        asyncio.run(_stop_pods(paths))
        note("cluster stopped" if was_running else "the cluster was not running")
        if purge:
            _forget(paths)
            asyncio.run(_purge(paths))
            note(f"deleted {escape(str(paths.root))}")


def _forget(paths: StatePaths) -> None:
    """Take the context of this state directory out of the user's kubeconfig, if it is there."""
    file = kubeconfigs.user_file()
    try:
        kubeconfigs.unmerge(file, paths.root)
    except (ValueError, OSError) as error:
        note(f"{escape(str(file))} stays as it is: {escape(str(error))}")


async def _stop_pods(paths: StatePaths) -> None:
    from trainshed.cluster.sandbox.api import Runtime, RuntimePaths

    await Runtime(RuntimePaths.under(paths.root)).stop_all()


async def _purge(paths: StatePaths) -> None:
    """Delete the state directory of a cluster that is stopped. Raises UserError."""
    from trainshed.cluster.sandbox.api import Runtime, RuntimeLost, RuntimePaths, RuntimeUnavailable

    runtime = Runtime(RuntimePaths.under(paths.root))
    try:
        try:
            await runtime.remove_tree(paths.root)
        except RuntimeLost:  # files of users that only the pods' user namespace has
            await runtime.start()
            try:
                await runtime.remove_tree(paths.pods)
                await runtime.remove_tree(paths.volumes)
            finally:
                await runtime.stop_all()
            await runtime.remove_tree(paths.root)
    except (OSError, RuntimeLost, RuntimeUnavailable) as error:
        raise UserError(
            f"{paths.root} cannot be deleted: {error}", "delete it yourself; nothing of it runs any more"
        ) from error


def status(output: Output = "text") -> None:
    """Tell what is up, where, and how much memory it takes. Exit code 1 when the cluster is not running."""
    with user_errors():
        paths = StatePaths.default()
        facts = _facts(paths)
        if output == "json":
            out.print_json(json.dumps(facts))
        else:
            _print_facts(facts)
        if not facts["running"]:
            raise typer.Exit(1)


def _facts(paths: StatePaths) -> dict[str, object]:
    from trainshed.cluster.control.processes import cluster_processes

    info = launcher.running(paths)
    facts: dict[str, object] = {"running": info is not None, "state": str(paths.root)}
    if info is not None:
        facts |= {
            "server": f"https://127.0.0.1:{info.port}",
            "kubeconfig": str(paths.kubeconfig),
            "version": info.version,
            "pid": info.pid,
            "uptime_seconds": round(time.time() - info.started_at, 1),
        }
    facts["processes"] = [
        {"role": p.role, "pid": p.pid, "rss_bytes": p.rss_bytes} for p in cluster_processes(paths, info)
    ]
    return facts


def _print_facts(facts: dict[str, object]) -> None:
    table = Table.grid(padding=(0, 2))
    if facts["running"]:
        table.add_row("cluster", f"running for {elapsed(float(str(facts['uptime_seconds'])))}")
        table.add_row("server", str(facts["server"]))
        table.add_row("kubeconfig", str(facts["kubeconfig"]))
        table.add_row("version", str(facts["version"]))
    else:
        table.add_row("cluster", "not running (trainshed up starts it)")
    table.add_row("state", str(facts["state"]))
    processes = facts["processes"]
    assert isinstance(processes, list)
    for process in processes:
        table.add_row(process["role"], f"pid {process['pid']}, {process['rss_bytes'] / 2**20:.0f} MiB")
    if processes:
        table.add_row(
            "memory",
            f"{sum(p['rss_bytes'] for p in processes) / 2**20:.0f} MiB in {len(processes)} processes",
        )
    out.print(table)


def doctor(output: Output = "text") -> None:
    """Check what this machine offers to pods and say what to change. Exit code 3 when pods cannot run."""
    from trainshed.cluster.sandbox.client.doctor import diagnose

    checks = diagnose()
    if output == "json":
        out.print_json(
            json.dumps([{"name": c.name, "ok": c.ok, "detail": c.detail, "remedy": c.remedy} for c in checks])
        )
    else:
        for check in checks:
            mark = "[green]✓[/]" if check.ok else "[red]✗[/]"
            out.print(f"{mark} {escape(check.name)}: {escape(check.detail)}")
            if not check.ok and check.remedy:
                out.print(f"  [cyan]{escape(check.remedy)}[/]")
    if not all(check.ok for check in checks):
        raise typer.Exit(UNAVAILABLE)


def kubeconfig(
    merge: Annotated[
        bool, typer.Option("--merge", help="Merge a `trainshed` context into your kubeconfig.")
    ] = False,
    unmerge: Annotated[
        bool, typer.Option("--unmerge", help="Take the `trainshed` context out of it again.")
    ] = False,
    use: Annotated[
        bool, typer.Option("--use", help="With --merge: also make it the current context.")
    ] = False,
) -> None:
    """Print where the kubeconfig is, or merge it into yours. Yours is what KUBECONFIG names, or ~/.kube/config.

    A cluster's own file is never edited. --unmerge removes the context of this state directory's cluster only, and
    makes the one that was current before it current again.
    """
    with user_errors():
        paths = StatePaths.default()
        if unmerge:
            file = _user_file()
            gone = _editing(lambda: kubeconfigs.unmerge(file, paths.root))
            note(
                f"context trainshed removed from {escape(str(file))}"
                if gone
                else f"no context of {escape(str(paths.root))} was in {escape(str(file))}"
            )
            return
        if not paths.kubeconfig.is_file():
            raise UserError("there is no cluster yet", "trainshed up")
        if merge:
            _merge(paths, make_current=use)
        else:
            out.print(escape(str(paths.kubeconfig)), soft_wrap=True)


def _merge(paths: StatePaths, *, make_current: bool) -> None:
    file = _user_file()
    config = kubeconfigs.own(paths)
    if config is None:
        raise UserError(f"{paths.kubeconfig} is damaged", "trainshed up writes it again")
    _editing(lambda: kubeconfigs.merge(file, config, make_current=make_current))
    note(f"context trainshed merged into {escape(str(file))} (trainshed kubeconfig --unmerge takes it out)")


def _user_file() -> Path:
    """Return the kubeconfig to edit; says so when KUBECONFIG names a cluster's own, which is not."""
    file = kubeconfigs.user_file()
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    for own in filter(kubeconfigs.is_of_a_cluster, named):
        note(
            f"KUBECONFIG names {escape(str(own))}, a cluster's own file, which is never edited: "
            f"using {escape(str(file))} (unset KUBECONFIG to see its contexts)"
        )
    return file


def _editing(edit: Callable[[], T]) -> T:
    """Run an edit of the user's kubeconfig; a file that is none stays as it is."""
    try:
        return edit()
    except (ValueError, OSError) as error:
        raise UserError(str(error), "name another file in KUBECONFIG") from error
