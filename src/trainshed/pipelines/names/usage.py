"""What is known about the names of a step after its code was read."""

from __future__ import annotations

import builtins
from enum import IntEnum

import msgspec


class Level(IntEnum):
    """What a step does to a name's object, at most.

    READ cannot change it (`x + 1`); TOUCH may (`f(x)`); CHANGE does (`x.append(1)`, `x[0] = 1`); BIND gives the name
    another object (`x = 1`).
    """

    READ = 0
    TOUCH = 1
    CHANGE = 2
    BIND = 3


class Use(msgspec.Struct, frozen=True):
    """How code that runs later uses a global name."""

    level: Level
    reads: bool = True


Carried = dict[str, Use]
"""Global names that an object uses when it is called: a function's, an instance's."""


class Need(msgspec.Struct, frozen=True):
    """A name that is read before the step has certainly set it.

    `maybe`: the step may have set it, or it is a builtin; nobody else needs to. `prelude`: an imports or functions cell
    sets it, and only what another step does to it counts. `bound` are the names that the step has certainly set when
    this one is first read.
    """

    name: str
    cell: int
    line: int
    maybe: bool = False
    prelude: bool = False
    bound: frozenset[str] = frozenset()


class Usage(msgspec.Struct, frozen=True):
    """The names of a step: what it needs, what it has at its end, and what it does to each.

    `uncertain` are those of `bound` that are set in a branch which may not run.
    """

    needs: tuple[Need, ...] = ()
    bound: frozenset[str] = frozenset()
    uncertain: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()
    mentions: dict[str, Level] = {}
    carries: dict[str, Carried] = {}
    imports: dict[str, str] = {}
    stars: tuple[str, ...] = ()
    unsaveable: dict[str, tuple[str, int, int]] = {}
    aliases: dict[str, tuple[str, int, int]] = {}
    prelude_variables: frozenset[str] = frozenset()
    lines: dict[str, tuple[int, int]] = {}
    """Where a name is set, as cell and line."""


KNOWN = frozenset(dir(builtins)) | {
    *("__name__", "__file__", "__doc__", "__builtins__", "__spec__", "__loader__", "__package__"),
    *(
        "get_ipython",
        "display",
        "In",
        "Out",
        "exit",
        "quit",
        "_",
        "__",
        "___",
        "_i",
        "_ii",
        "_iii",
        "_ih",
        "_oh",
        "_dh",
    ),
}
"""Names that every kernel has."""
