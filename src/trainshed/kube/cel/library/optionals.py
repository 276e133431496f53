"""Optional values. Source: `cel-go/cel/library.go`, "Optional types"."""

from __future__ import annotations

from typing import Any

from trainshed.kube.cel.library.overloads import ANY, function, member
from trainshed.kube.cel.values import NONE, Duration, EvaluationError, Optional, is_number, present

function("optional.none")(lambda: NONE)
function("optional.of", ANY)(present)
member("hasValue", Optional)(lambda held: held.present)
member("orValue", Optional, ANY)(lambda held, other: held.value if held.present else other)
member("or", Optional, Optional)(lambda held, other: held if held.present else other)


@function("optional.ofNonZeroValue", ANY)
def _of_non_zero(value: Any) -> Optional:
    if value is None or value is False or (isinstance(value, str | bytes | list | dict) and not value):
        return NONE
    if is_number(value) and value == 0:
        return NONE
    if type(value) is Duration and not value.nanoseconds:
        return NONE
    return present(value)


@member("value", Optional)
def _value(held: Optional) -> Any:
    if not held.present:
        raise EvaluationError("optional.none() dereference")
    return held.value
