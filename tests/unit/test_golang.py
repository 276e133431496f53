from __future__ import annotations

from typing import Any

import pytest

from trainshed.kube.meta import golang


def test_maps_and_anything() -> None:
    assert golang.strings({"b": "2", "a": 'q"'}) == 'map[string]string{"a":"q\\"", "b":"2"}'
    assert golang.strings(None) == "map[string]string(nil)"
    found = golang.anything({"a": [1, None, True], "b": {}})
    assert found == (
        'map[string]interface {}{"a":[]interface {}{1, interface {}(nil), true}, "b":map[string]interface {}{}}'
    )


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        ("2", 'value:2, scale:0}, s:"2", Format:"DecimalSI"'),
        ("100m", 'value:100, scale:-3}, s:"100m", Format:"DecimalSI"'),
        ("1500m", 'value:1500, scale:-3}, s:"1500m", Format:"DecimalSI"'),
        ("10", 'value:10, scale:0}, s:"10", Format:"DecimalSI"'),
        ("1Gi", 'value:1073741824, scale:0}, s:"1Gi", Format:"BinarySI"'),
    ],
)
def test_quantities(value: Any, amount: str) -> None:
    shown = golang.quantity(value).replace(" d:resource.infDecAmount{Dec:(*inf.Dec)(nil)},", "")
    assert shown == f"resource.Quantity{{i:resource.int64Amount{{{amount}}}"


def test_label_selectors() -> None:
    assert golang.label_selector(None) == "(*v1.LabelSelector)(nil)"
    selector = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x"]}]}
    assert golang.label_selector(selector) == (
        "v1.LabelSelector{MatchLabels:map[string]string(nil), MatchExpressions:[]v1.LabelSelectorRequirement{"
        'v1.LabelSelectorRequirement{Key:"a", Operator:"In", Values:[]string{"x"}}}}'
    )
