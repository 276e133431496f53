"""The notebook's metadata `kubeflow_notebook`: the union of what Kale 0.7, the fork and Kale 2 write there, checked.

Nothing is coerced but sizes written as strings. An unknown key is a warning, since each generation refused the keys of
the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from trainshed.pipelines.diagnostics import Diagnostic, diagnostic
from trainshed.pipelines.notebook.cells import Notebook
from trainshed.pipelines.notebook.nearest import nearest

_PIPELINE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_OBJECT_NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_ACCESS_MODES = {"": "", "rom": "ReadOnlyMany", "rwo": "ReadWriteOnce", "rwm": "ReadWriteMany"}
_DATA_SIZE = "1Gi"
_SHARED_PATH = "/marshal"
"""Where Kale 0.7 and the fork keep what goes from step to step, and where notebooks put files beside it."""
_LONGEST_NAME = 53
"""Characters of a pipeline's name: what is left of 63 for the suffixes of its runs and pods."""


class Volume(msgspec.Struct, frozen=True):
    """A volume that every step mounts: an existing claim, or one that is made for the run when `size` is set."""

    name: str
    mount_path: str
    size: str | None = None
    storage_class: str | None = None
    access_mode: str | None = None
    annotations: tuple[tuple[str, str], ...] = ()
    env: str | None = None


class Settings(msgspec.Struct, frozen=True):
    """How the pipeline is called and where it runs."""

    name: str
    experiment: str = ""
    description: str = ""
    image: str = ""
    caching: bool = True
    volumes: tuple[Volume, ...] = ()
    data_size: str = _DATA_SIZE
    storage_class: str | None = None
    access_mode: str | None = None
    working_dir: str | None = None
    shared_path: str = _SHARED_PATH
    timeout: int | None = None
    step_tags: tuple[str, ...] = ()
    run_as_user: int | None = None
    run_as_group: int | None = None


SETTINGS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "pipeline_name": (str, "name of the pipeline; otherwise that of the file"),
    "experiment_name": (str, "experiment of the run that `--kfp-host` starts"),
    "experiment": (dict, "taken, and without effect: Kale's extension keeps it for itself"),
    "pipeline_description": (str, "description of the pipeline"),
    "docker_image": (str, "image of the steps, in Kale 0.7's word"),
    "base_image": (str, "image of the steps"),
    "enable_caching": (bool, "whether Kubeflow Pipelines may use results again; default true"),
    "volumes": (
        list,
        "claims that every step mounts: `{name, mount_point, type: pvc or new_pvc, size, size_type}`",
    ),
    "katib_run": (bool, "without effect"),
    "katib_metadata": (dict, "without effect"),
    "abs_working_dir": (str, "working directory of the steps, where one of the volumes has it"),
    "marshal_volume": (bool, "without effect: a run always has a volume for its data"),
    "marshal_path": (
        str,
        "where cells find the run's shared directory, if they name it; default `/marshal`, as in Kale",
    ),
    "data_size": ((str, int), "size of the volume for the run's data; default `1Gi`"),
    "autosnapshot": (bool, "without effect"),
    "snapshot_volumes": (bool, "without effect"),
    "steps_defaults": ((list, dict), "tags that every step has; a step's own tag wins"),
    "kfp_host": (str, "without effect: `--kfp-host` says where to send the pipeline"),
    "storage_class_name": (str, "storage class of claims that a run makes"),
    "volume_access_mode": (str, "`rwo`, `rwm` or `rom` for claims that a run makes"),
    "timeout": (int, "seconds that a run may take"),
    "security_context": (dict, "`{run_as_user, run_as_group}` of the steps' pods"),
    "output_path": (str, "without effect: `--output` says where to write"),
    "notebook_path": (str, "without effect"),
}
"""Every setting: its type, and what it does."""
_WITHOUT_EFFECT = {
    "katib_run": "hyperparameter search is not there yet",
    "autosnapshot": "there are no Rok snapshots",
    "snapshot_volumes": "there are no Rok snapshots",
}
"""Settings that would change what runs, if they were on."""


class _Checker:
    """Collects findings while values are taken out of the metadata."""

    def __init__(self, raw: Mapping[str, Any], prefix: str = "") -> None:
        self.raw, self.prefix = raw, prefix
        self.found: list[Diagnostic] = []

    def wrong(self, key: str, why: str, fix: str = "") -> None:
        fix = (
            fix or f"correct or remove {self.prefix}{key} in the notebook's metadata, under kubeflow_notebook"
        )
        self.found.append(diagnostic("NB003", f"setting {self.prefix}{key}: {why}", fix=fix))

    def get(self, key: str, expected: type | tuple[type, ...], default: Any = None) -> Any:
        value = self.raw.get(key)
        if value is None:
            return default
        if not isinstance(value, expected) or (isinstance(value, bool) and expected is int):
            names = [t.__name__ for t in (expected if isinstance(expected, tuple) else (expected,))]
            self.wrong(key, f"must be {' or '.join(names)}, not {type(value).__name__}: {value!r}")
            return default
        return value

    def text(self, key: str, pattern: re.Pattern[str], form: str) -> str | None:
        value: str | None = self.get(key, str) or None
        if value is not None and not pattern.fullmatch(value):
            near = sanitised(value)
            self.wrong(key, f"{value!r} must be {form}", f"write {near}" if pattern.fullmatch(near) else "")
            return None
        return value


def settings_of(notebook: Notebook) -> tuple[Settings, list[Diagnostic]]:
    """Return the settings of a notebook, with its file's name where it gives none."""
    checker = _Checker(notebook.settings)
    for key, value in notebook.settings.items():
        if key not in SETTINGS:
            close = nearest(key, SETTINGS)
            checker.found.append(
                diagnostic(
                    "NB002", f"setting {key}: unknown", fix=f"did you mean {close}?" if close else "remove it"
                )
            )
        else:
            checker.get(key, SETTINGS[key][0])
        if key in _WITHOUT_EFFECT and value is True:
            checker.found.append(
                diagnostic("NB004", f"setting {key} has no effect: {_WITHOUT_EFFECT[key]}", fix="remove it")
            )
    name = checker.text("pipeline_name", _PIPELINE_NAME, "lower-case letters, digits and inner hyphens")
    if name and len(name) > _LONGEST_NAME:
        checker.wrong("pipeline_name", f"may have {_LONGEST_NAME} characters, not {len(name)}", "shorten it")
    timeout = checker.get("timeout", int)
    if timeout is not None and timeout <= 0:
        checker.wrong("timeout", f"must be a positive number of seconds, not {timeout}")
    shared_path = checker.get("marshal_path", str) or _SHARED_PATH
    if not shared_path.startswith("/") or ".." in shared_path.split("/") or not shared_path.strip("/"):
        checker.wrong("marshal_path", f"must be an absolute path, not {shared_path!r}")
    mode, storage_class = _storage(checker)
    user, group = _security(checker)
    image = checker.get("base_image", str, "") or checker.get("docker_image", str, "")
    defaults = checker.raw.get("steps_defaults")
    result = Settings(
        name=name or sanitised(notebook.name),
        experiment=checker.get("experiment_name", str, ""),
        description=checker.get("pipeline_description", str, ""),
        image=image,
        caching=checker.get("enable_caching", bool, True),
        volumes=_volumes(checker, storage_class, mode),
        data_size=str(checker.get("data_size", (str, int), _DATA_SIZE)),
        storage_class=storage_class,
        access_mode=mode,
        working_dir=checker.get("abs_working_dir", str),
        shared_path=shared_path.rstrip("/"),
        timeout=timeout,
        step_tags=tuple(tag for tag in defaults if isinstance(tag, str))
        if isinstance(defaults, list)
        else (),
        run_as_user=user,
        run_as_group=group,
    )
    return result, checker.found


def sanitised(name: str) -> str:
    """Return the nearest name that a pipeline may have."""
    cleaned = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_LONGEST_NAME].strip("-")
    return cleaned or "notebook"


def _storage(checker: _Checker) -> tuple[str | None, str | None]:
    storage_class = checker.text("storage_class_name", _OBJECT_NAME, "the name of a storage class")
    return _mode(checker), storage_class


def _mode(checker: _Checker) -> str | None:
    mode = checker.get("volume_access_mode", str)
    if mode is None:
        return None
    if mode not in _ACCESS_MODES:
        checker.wrong("volume_access_mode", f"must be rom, rwo or rwm, not {mode!r}")
        return None
    return _ACCESS_MODES[mode] or None


def _security(checker: _Checker) -> tuple[int | None, int | None]:
    raw = checker.raw.get("security_context")
    if not isinstance(raw, dict) or raw.get("enabled") is False:
        return None, None
    inner = _Checker(raw, "security_context.")
    user, group = inner.get("run_as_user", int), inner.get("run_as_group", int)
    checker.found += inner.found
    return user, group


def _volumes(checker: _Checker, storage_class: str | None, mode: str | None) -> tuple[Volume, ...]:
    raw = checker.raw.get("volumes")
    if not isinstance(raw, list):
        return ()
    volumes = []
    for index, entry in enumerate(raw):
        prefix = f"volumes[{index}]."
        if not isinstance(entry, dict):
            checker.wrong(f"volumes[{index}]", f"must be an object, not {type(entry).__name__}")
            continue
        inner = _Checker(entry, prefix)
        volume = _volume(inner, storage_class, mode)
        checker.found += inner.found
        if volume is not None:
            volumes.append(volume)
    for what, key in (("mount_point", "mount_path"), ("name", "name"), ("name", "env")):
        values = [getattr(v, key) for v in volumes if getattr(v, key) is not None]
        for twice in sorted({v for v in values if values.count(v) > 1}):
            checker.wrong("volumes", f"two have the {what} {twice}")
    return tuple(volumes)


def _volume(inner: _Checker, storage_class: str | None, mode: str | None) -> Volume | None:
    name = inner.text("name", _OBJECT_NAME, "lower-case letters, digits and inner hyphens, a letter first")
    path = inner.get("mount_point", str)
    kind = inner.get("type", str)
    for key, value in (("name", inner.raw.get("name")), ("mount_point", path), ("type", kind)):
        if not value:
            inner.wrong(key, "is required")
    if path and (not path.startswith("/") or ".." in path.split("/")):
        inner.wrong("mount_point", f"must be an absolute path, not {path!r}")
    reader = _VOLUME_TYPES.get(kind or "")
    if kind and reader is None:
        inner.wrong("type", f"must be pvc or new_pvc, not {kind!r}", "mount an existing claim with type pvc")
    if not (name and path and reader) or inner.found:
        return None
    return reader(inner, Volume(name, path, storage_class=storage_class, access_mode=mode))


def _existing(inner: _Checker, volume: Volume) -> Volume:
    env = None
    if inner.get("expose_as_env_var", bool, False):
        env = "KALE_VOLUME_" + re.sub(r"[^A-Z0-9]", "_", volume.name.upper())
    return msgspec.structs.replace(volume, env=env, storage_class=None, access_mode=None)


def _new(inner: _Checker, volume: Volume) -> Volume:
    size = inner.get("size", (int, str))
    if size is None or not str(size).strip()[:1].isdigit():
        inner.wrong("size", "must be a number for a new claim" if size is None else f"{size!r} is no size")
    unit = inner.get("size_type", str, "") or ""
    annotations = inner.get("annotations", list, []) or []
    pairs = [(a.get("key"), a.get("value")) for a in annotations if isinstance(a, dict)]
    return msgspec.structs.replace(
        volume,
        size=f"{size}{unit}" if size is not None else _DATA_SIZE,
        storage_class=inner.text("storage_class_name", _OBJECT_NAME, "a storage class")
        or volume.storage_class,
        access_mode=_mode(inner) or volume.access_mode,
        annotations=tuple((str(k), str(v)) for k, v in pairs if k and v),
    )


_VOLUME_TYPES: dict[str, Callable[[_Checker, Volume], Volume]] = {"pvc": _existing, "new_pvc": _new}
