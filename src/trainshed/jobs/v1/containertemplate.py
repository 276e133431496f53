"""Containers from a template in the part of Go's template language that such files use.

That is `{{ .Field }}` with optional trim markers, values HTML-escaped.
Source: the template file of the Kubeflow training operator v1.
"""

from __future__ import annotations

import functools
import re

import msgspec

from trainshed.kube.meta.objects import Object

# What Go's html/template writes for characters that mean something in HTML.
_HTML = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;", "+": "&#43;", "\0": "\ufffd"}
)
_FIELD = re.compile(r"(\s*\{\{-\s|\{\{)\s*(.*?)\s*(\s-\}\}\s*|\}\})", re.DOTALL)


def render(template: str, **values: str) -> list[Object]:
    """Return the list of containers of the template with its fields filled in; `values` by the name of each.

    Raises ValueError naming what is wrong: an unknown field, no YAML, or no list of named containers.
    """
    containers: list[Object] = msgspec.json.decode(_rendered(template, tuple(values.items())))
    return containers


@functools.lru_cache(maxsize=64)
def _rendered(template: str, fields: tuple[tuple[str, str], ...]) -> bytes:
    """Return what `render` returns, as JSON. All pods of a type have the same, in every pass over the job."""
    values = {f".{name}": value for name, value in fields}

    def fill(match: re.Match[str]) -> str:
        expression = match[2]
        if expression.startswith("/*") and expression.endswith("*/"):
            return ""
        if expression not in values:
            known = ", ".join(values)
            raise ValueError(
                f"init container template: unknown expression {expression!r}; known fields: {known}"
            )
        return values[expression].translate(_HTML)

    import yaml  # loaded when the first job needs it: most of the time there is none

    try:
        containers = yaml.safe_load(_FIELD.sub(fill, template))
    except yaml.YAMLError as error:
        raise ValueError(f"init container template: not YAML after rendering: {error}") from error
    if not isinstance(containers, list):
        raise ValueError("init container template: must render to a YAML list of containers")
    for index, container in enumerate(containers):
        if not isinstance(container, dict) or not isinstance(container.get("name"), str):
            raise ValueError(f"init container template: [{index}] is no container with a name")
    return msgspec.json.encode(containers)
