"""The init container in which a PyTorch worker waits until the name of its master resolves.

A worker that starts first would otherwise fail its rendezvous and restart. The template language is the part
of Go templates that such files use: `{{ .Field }}` with optional trim markers, values HTML-escaped.
Source of fields and defaults: flags and template file of the Kubeflow training operator v1.
"""

from __future__ import annotations

import functools
import re

import msgspec
import yaml

from trainshed.kube.meta.objects import Object

DEFAULT_IMAGE = "alpine:3.10"
DEFAULT_MAX_TRIES = 100

DEFAULT_TEMPLATE = """\
- name: init-pytorch
  image: {{.InitContainerImage}}
  imagePullPolicy: IfNotPresent
  resources:
    limits:
      cpu: 100m
      memory: 20Mi
    requests:
      cpu: 50m
      memory: 10Mi
  command:
  - sh
  - -c
  - err=1;for i in $(seq {{.MaxTries}}); do if nslookup {{.MasterAddr}}; then err=0 && break; fi;echo\
 waiting for master; sleep 2; done; exit $err
"""

# What Go's html/template writes for characters that mean something in HTML.
_HTML = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;", "+": "&#43;", "\0": "\ufffd"}
)
_FIELD = re.compile(r"(\s*\{\{-\s|\{\{)\s*(.*?)\s*(\s-\}\}\s*|\}\})", re.DOTALL)


def render(template: str, *, master_addr: str, image: str, max_tries: int) -> list[Object]:
    """Return the list of containers of the template with its fields filled in.

    Raises ValueError naming what is wrong: an unknown field, no YAML, or no list of named containers.
    """
    containers: list[Object] = msgspec.json.decode(_rendered(template, master_addr, image, max_tries))
    return containers


@functools.lru_cache(maxsize=64)
def _rendered(template: str, master_addr: str, image: str, max_tries: int) -> bytes:
    """Return what `render` returns, as JSON. All workers of a job have the same, in every pass over the job."""
    values = {".MasterAddr": master_addr, ".InitContainerImage": image, ".MaxTries": str(max_tries)}

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
