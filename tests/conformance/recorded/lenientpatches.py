"""A sequence of JSON patches about what is not there: Kubernetes' library takes more of them than RFC 6902 does."""

from __future__ import annotations

from tests.conformance.recorded.steps import NS, config_map, json_patch, post

_MAPS = f"{NS}/configmaps"
_MISSING = (
    {"op": "copy", "path": "/metadata/labels", "from": "/metadata/labels"},
    {"op": "replace", "path": "/metadata/labels", "value": {"a": "b"}},
    {"op": "remove", "path": "/metadata/labels"},
    {"op": "remove", "path": "/metadata/labels"},
    {"op": "replace", "path": "/metadata/annotations/x", "value": "b"},
    {"op": "replace", "path": "/data/more", "value": "b"},
    {"op": "copy", "path": "/data/copied", "from": "/data/nothing"},
    {"op": "move", "path": "/data/moved", "from": "/data/nothing"},
    {"op": "copy", "path": "/data/copied", "from": "/nothing/nothing"},
    {"op": "test", "path": "/data/nothing", "value": None},
    {"op": "replace", "path": "/data", "value": {"x": "z"}},
)

LENIENT_PATCHES = {
    "patches of what is missing": [
        post(_MAPS, config_map("a", {"x": "y"})),
        *(json_patch(f"{_MAPS}/a", [operation]) for operation in _MISSING),
    ]
}
