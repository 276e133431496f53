"""Other people's packages and modules of which a process needs a part."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import MappingProxyType, ModuleType
from typing import Any


def leave_init(package: str, homes: Mapping[str, str] = MappingProxyType({})) -> None:
    """Make the modules of an installed package importable without its `__init__`, which runs when it is needed.

    For packages whose `__init__` loads much that few need, a command line say. `homes` are modules below it by the
    names that it has from them; any other name that nobody has yet asked the package for runs `__init__`, so all of it
    stays in reach. Nothing happens where the package is imported already, or is not installed: then its import says so.
    """
    spec = find_spec(package) if package not in sys.modules else None
    if spec is None or spec.loader is None:
        return
    loader = spec.loader

    class WithoutInit(ModuleType):
        """What stands for the package until its `__init__` runs in it."""

        def __getattr__(self, name: str) -> Any:
            if name in homes:
                return getattr(import_module(f"{package}.{homes[name]}"), name)
            if find_spec(f"{package}.{name}") is not None:
                return import_module(f"{package}.{name}")
            self.__class__ = ModuleType  # type: ignore[assignment]
            loader.exec_module(self)
            return getattr(self, name)

    module = module_from_spec(spec)
    module.__class__ = WithoutInit
    sys.modules[package] = module


class _AtFirstUse(ModuleType):
    """What stands for a module until somebody asks it for a name; whoever has it by then goes on asking through it."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            sys.modules.pop(self.__name__, None)
        return getattr(import_module(self.__name__), name)


def at_first_use(*names: str) -> None:
    """Have these modules run when they are first asked for a name, not when they are imported.

    For what others import at their head and hardly ever use. Not for what tells of errors: there may be no file
    descriptor left to read it with. `importlib.util.LazyLoader` runs a module when it is imported a second time.
    """
    for name in names:
        spec = find_spec(name) if name not in sys.modules else None
        if spec is None or spec.loader is None:
            continue
        module = module_from_spec(spec)
        module.__class__ = _AtFirstUse
        sys.modules[name] = module
        package, _, own = name.rpartition(".")
        if package:
            setattr(sys.modules[package], own, module)


@contextmanager
def without(name: str) -> Iterator[None]:
    """Have what is imported meanwhile do without a module that it would take if it could."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # so says `import` of what is not to be had
    try:
        yield
    finally:
        del sys.modules[name]
