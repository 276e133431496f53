"""Other people's packages of which a process needs a part."""

from __future__ import annotations

import sys
from collections.abc import Mapping
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
