"""Objects as YAML text: the same objects give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from trainshed.kube.wire.yamltext import PlainDumper


class _Dumper(PlainDumper):
    """Writes texts of several lines as such."""


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    node: yaml.ScalarNode = dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)
    return node


_Dumper.add_representer(str, _text)


def documents(objects: Sequence[dict[str, Any]]) -> str:
    """Return objects as YAML documents."""
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=1 << 20, allow_unicode=True)
