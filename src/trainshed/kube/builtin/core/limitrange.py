"""LimitRanges: a container's maximum is its default, and its default what it requests."""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.kube.builtin.kind import Builtin, row
from trainshed.kube.builtin.parts.pod.resources import resource_name_causes
from trainshed.kube.meta import causes, golang, names
from trainshed.kube.meta.errors import Cause
from trainshed.kube.meta.objects import Object, objects, section, spec_of
from trainshed.kube.meta.quantity import parse
from trainshed.kube.meta.resources import LIMITRANGES


def _defaults(obj: Object) -> None:
    obj["spec"] = {**spec_of(obj), "limits": spec_of(obj).get("limits") or None}
    for limit in spec_of(obj).get("limits") or ():
        if limit.get("type") != "Container":
            continue
        default = limit.setdefault("default", {})
        for name, amount in section(limit, "max").items():
            default.setdefault(name, amount)
        request = limit.setdefault("defaultRequest", {})
        for name, amount in {**section(limit, "min"), **default}.items():
            request.setdefault(name, amount)


_KINDS = ("Container", "PersistentVolumeClaim", "Pod")
_WORDS = {"min": "min", "max": "max", "default": "default", "defaultRequest": "default request"}
_ORDER = (
    ("min", "max"),
    ("min", "defaultRequest"),
    ("min", "default"),
    ("defaultRequest", "max"),
    ("defaultRequest", "default"),
    ("default", "max"),
)


def _check(obj: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, limit in enumerate(objects(spec_of(obj), "limits")):
        at, kind = f"spec.limits[{index}]", str(limit.get("type") or "")
        if kind in seen:
            yield causes.duplicate(f"{at}.type", kind)
        seen.add(kind)
        wrong = names.qualified_name(kind)
        for why in wrong:
            yield causes.invalid(f"{at}.type", kind, why)
        if not wrong and kind not in _KINDS and "/" not in kind:
            yield causes.invalid(f"{at}.type", kind, "must be a standard limit type or fully qualified")
        for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            for name in section(limit, field):
                where, in_container = f"{at}.{field}[{name}]", kind == "Container"
                yield from resource_name_causes(name, where, in_container=in_container)
        if kind == "Pod":
            for field in ("default", "defaultRequest"):
                if limit.get(field):
                    text = "may not be specified when `type` is 'Pod'"
                    yield causes.forbidden(f"{at}.{field}", text)
        if kind == "PersistentVolumeClaim" and not any(
            "storage" in section(limit, field) for field in ("min", "max")
        ):
            yield causes.required(
                f"{at}.limits",
                "either minimum or maximum storage value is required, but neither was provided",
            )
        for low, high in _ORDER:
            for name in sorted(section(limit, low).keys() & section(limit, high).keys()):
                least, most = section(limit, low)[name], section(limit, high)[name]
                if parse(least) > parse(most):
                    other = "default limit" if (low, high) == ("defaultRequest", "default") else _WORDS[high]
                    text = f"{_WORDS[low]} value {least} is greater than {other} value {most}"
                    # Upstream names the default that is too small, where there is one.
                    blamed = high if low == "min" and high != "max" else low
                    shown = golang.quantity(most if blamed == high == "defaultRequest" else least)
                    yield causes.invalid_shown(f"{at}.{blamed}[{name}]", shown, text)
        for name, ratio in sorted(section(limit, "maxLimitRequestRatio").items()):
            where = f"{at}.maxLimitRequestRatio[{name}]"
            if parse(ratio) < 1:
                yield causes.invalid_shown(where, golang.quantity(ratio), f"ratio {ratio} is less than 1")
            least, most = section(limit, "min").get(name), section(limit, "max").get(name)
            if (
                least is not None
                and most is not None
                and parse(least)
                and parse(ratio) > parse(most) / parse(least)
            ):
                text = f"ratio {ratio} is greater than max/min = {float(parse(most) / parse(least)):f}"
                yield causes.invalid_shown(where, golang.quantity(ratio), text)


KIND = Builtin(
    info=row(LIMITRANGES, "limits", create_on_update=True),
    does="gives containers what they leave out; bounds what containers, pods and claims ask for",
    defaults=_defaults,
    check=_check,
    viewed=("",),
)
