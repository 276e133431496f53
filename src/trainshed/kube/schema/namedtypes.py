"""What Go calls the types of fields that are texts, lists or maps: errors tell `v1.PullPolicy`, not `string`."""

from __future__ import annotations

from pathlib import Path

_TABLE = Path(__file__).parents[1] / "data" / "namedtypes.txt"


def named_type(definition: str, field: str) -> str | None:
    """Return the name of a field's type, None where it has none of its own. Reads the table: errors are rare."""
    package, _, struct = definition.rpartition(".")
    _, _, below = _TABLE.read_text("utf-8").partition(f"\n[{package}]\n")
    for line in below.partition("\n[")[0].splitlines():
        name, _, fields = line.partition(" = ")
        if name == struct:
            return dict(each.split(" ", 1) for each in fields.split(", ")).get(field)
    return None


def of_item(named: str) -> str:
    """Return the type of what a list or map of this type holds, itself where it is neither."""
    return named.removeprefix("[]").removeprefix("map[string]")
