"""`trainshed kubeconfig`: the local cluster in the kubeconfig of other programs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from trainshed.cli.console import note, out, user_errors
from trainshed.cluster.paths import StatePaths
from trainshed.sdk import contexts
from trainshed.sdk.errors import UserError


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
            tell_passed_over()
            file = contexts.unmerge(paths)
            note(
                f"context trainshed removed from {escape(str(file))}"
                if file
                else f"no context of {escape(str(paths.root))} was in {escape(str(contexts.user_file()))}"
            )
            return
        if use and not merge:
            raise UserError("--use says which context --merge makes current", "add --merge")
        if not paths.kubeconfig.is_file():
            raise UserError("there is no cluster yet", "trainshed up")
        if merge:
            merge_context(paths, make_current=use)
        else:
            out.print(escape(str(paths.kubeconfig)), soft_wrap=True)


def merge_context(paths: StatePaths, *, make_current: bool) -> None:
    """Merge the context of a cluster into the user's kubeconfig, and say so."""
    tell_passed_over()
    file = contexts.merge(paths, make_current=make_current)
    note(f"context trainshed merged into {escape(str(file))} (trainshed kubeconfig --unmerge takes it out)")


def tell_passed_over() -> None:
    """Say which file of $KUBECONFIG is left alone, and which is used instead."""
    for own in contexts.passed_over():
        note(
            f"KUBECONFIG names {escape(str(own))}, a cluster's own file, which is never edited: "
            f"using {escape(str(contexts.user_file()))} (unset KUBECONFIG to see its contexts)"
        )
