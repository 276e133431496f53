"""What is noted of each global name while code is read: read, changed or bound, for certain or perhaps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from trainshed.pipelines.names.usage import KNOWN, Carried, Level, Need, Usage, Use


class Frame:
    """A scope inside the module: of a function, a class or a comprehension."""

    def __init__(self, kind: str, local: set[str], declared: set[str]) -> None:
        self.kind, self.local, self.declared = kind, local, declared


class Notes:
    """What is known of names at the place that is read."""

    def __init__(self) -> None:
        self._definite: set[str] = set()
        self._possible: set[str] = set()
        self._deleted: set[str] = set()
        self._needs: dict[str, Need] = {}
        self._mentions: dict[str, Level] = {}
        self._carries: dict[str, Carried] = {}
        self._imports: dict[str, str] = {}
        self._stars: list[str] = []
        self._unsaveable: dict[str, tuple[str, int, int]] = {}
        self._aliases: dict[str, tuple[str, int, int]] = {}
        self._lines: dict[str, tuple[int, int]] = {}
        self._generators: set[str] = set()
        self._classes: set[str] = set()
        self._prelude: dict[str, str] = {}
        self._kinds: dict[str, str] = {}
        self._frames: list[Frame] = []
        self._later: Carried | None = None
        self._using: set[str] = set()
        self._branches = 0
        self._cell = 0
        self._line = 0

    def copy(self) -> Self:
        """Return a reader in the same state, to go on with another step's own code."""
        twin = type(self)()
        twin._carries, twin._prelude = dict(self._carries), dict(self._prelude)
        twin._stars, twin._generators, twin._classes = (
            list(self._stars),
            set(self._generators),
            set(self._classes),
        )
        return twin

    def as_prelude(self) -> tuple[Need, ...]:
        """Take what was read for the imports and functions cells, and begin anew. Return what they need for certain."""
        needs = tuple(n for n in self._needs.values() if not n.maybe)
        self._prelude = {name: self._kinds.get(name, "variable") for name in self._possible}
        for names in (self._definite, self._possible, self._deleted):
            names.clear()
        for notes in (self._needs, self._mentions, self._imports, self._kinds):
            notes.clear()
        for places in (self._unsaveable, self._aliases, self._lines):
            places.clear()
        return needs

    def defined_for_later(self) -> None:
        """Note what else the functions defined here need: other steps may call them."""
        for name in sorted(self._possible):
            for later, use in sorted(self._carries.get(name, {}).items()):
                # Defined here, perhaps never called here: the name is needed, but not changed.
                self._mention(later, Level.READ)
                if later not in self._possible and later not in self._prelude:
                    self._cell, self._line = self._lines.get(name, (self._cell, self._line))
                    self._need(later, maybe=not use.reads or later in KNOWN)

    def usage(self) -> Usage:
        """Return what was noted."""
        own = self._possible
        return Usage(
            needs=tuple(self._needs.values()),
            bound=frozenset(own),
            uncertain=frozenset(own - self._definite),
            deleted=frozenset(self._deleted - own),
            mentions=self._mentions,
            carries={name: carried for name, carried in self._carries.items() if carried},
            imports={name: text for name, text in self._imports.items() if name in own},
            stars=tuple(dict.fromkeys(self._stars)),
            unsaveable=self._unsaveable,
            aliases=self._aliases,
            prelude_variables=frozenset(n for n, kind in self._prelude.items() if kind == "variable"),
            lines=self._lines,
        )

    def _is_local(self, name: str) -> bool:
        for frame in reversed(self._frames):
            if frame.kind == "class" and frame is not self._frames[-1]:
                continue
            if name in frame.declared:
                return False
            if name in frame.local:
                return True
        return False

    def _mention(self, name: str, level: Level) -> None:
        self._mentions[name] = max(level, self._mentions.get(name, Level.READ))

    def _need(self, name: str, maybe: bool) -> None:
        known = self._needs.get(name)
        if known is not None and (maybe or not known.maybe):
            return
        bound = known.bound if known is not None else frozenset(self._definite)
        self._needs[name] = Need(name, self._cell, self._line, maybe, name in self._prelude, bound)

    def _load(self, name: str, level: Level) -> Carried:
        """Note that a name is read, and return what its object carries."""
        if self._is_local(name):
            return {}
        if self._later is not None:
            known = self._later.get(name)
            self._later[name] = Use(max(level, known.level if known else Level.READ), True)
            return {}
        self._mention(name, level)
        if name not in self._definite:
            self._need(name, maybe=name in self._possible or name in self._prelude or name in KNOWN)
        return self._carries.get(name, {})

    def _use(self, carried: Carried) -> None:
        """Note that what an object carries may run now."""
        if self._later is not None:
            return
        for name, use in carried.items():
            if name in self._using:
                continue
            self._using.add(name)
            self._mention(name, use.level)
            if name not in self._definite:
                self._need(
                    name,
                    maybe=not use.reads or name in self._possible or name in self._prelude or name in KNOWN,
                )
            if use.level == Level.BIND:
                self._possible.add(name)
                self._kinds[name] = "variable"
                self._lines.setdefault(name, (self._cell, self._line))
            self._use(self._carries.get(name, {}))
            self._using.discard(name)

    def _store(self, name: str, carried: Carried | None = None, kind: str = "variable") -> None:
        if self._frames and not self._is_global_here(name):
            return
        if self._later is not None:
            known = self._later.get(name)
            self._later[name] = Use(Level.BIND, known.reads if known else False)
            return
        self._mention(name, Level.BIND)
        self._definite.add(name)
        self._possible.add(name)
        self._deleted.discard(name)
        self._kinds[name] = kind
        self._lines[name] = (self._cell, self._line)
        for state in (self._imports, self._unsaveable, self._aliases):
            state.pop(name, None)
        self._generators.discard(name)
        self._classes.discard(name)
        self._carries[name] = dict(carried or {})

    def _is_global_here(self, name: str) -> bool:
        for frame in reversed(self._frames):
            if name in frame.declared:
                return True
            if frame.kind != "comprehension":
                return False
        return True

    def _delete(self, name: str) -> None:
        self._load(name, Level.READ)
        if self._later is not None or self._is_local(name):
            return
        self._mention(name, Level.BIND)
        self._definite.discard(name)
        if not self._branches:
            self._possible.discard(name)
            self._deleted.add(name)

    @contextmanager
    def _maybe(self) -> Iterator[None]:
        """What is bound inside is not bound for certain afterwards."""
        before = set(self._definite)
        self._branches += 1
        yield
        self._branches -= 1
        self._definite &= before
