"""The template of the init container."""

from __future__ import annotations

import pytest

from trainshed.jobs.v1.containertemplate import render
from trainshed.jobs.v1.frameworks.pytorch import PyTorchOptions


def rendered(template: str) -> list[dict[str, object]]:
    return render(template, MasterAddr="m-0", InitContainerImage='a<b>"', MaxTries="5")


def test_fields_are_filled_in_with_go_spacing_and_trim_markers() -> None:
    template = (
        "- name: w\n  args: ['{{ .MasterAddr }}', '{{- .MaxTries -}}', '{{.MaxTries}}']{{/* note */}}\n"
    )
    assert rendered(template) == [{"name": "w", "args": ["m-0", "5", "5"]}]


def test_trim_markers_eat_the_space_around() -> None:
    assert rendered("- name: w\n  image: x {{- .MaxTries -}} y\n")[0]["image"] == "x5y"


def test_values_are_html_escaped() -> None:
    assert rendered("- name: w\n  image: '{{.InitContainerImage}}'\n")[0]["image"] == "a&lt;b&gt;&#34;"


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("- name: {{.Nope}}\n", "unknown expression '.Nope'"),
        ("- name: [\n", "not YAML"),
        ("name: x\n", "must render to a YAML list"),
        ("- image: x\n", r"\[0\] is no container with a name"),
        ("- text\n", r"\[0\] is no container with a name"),
    ],
)
def test_a_wrong_template_stops_the_operator_at_its_start(template: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        PyTorchOptions(template=template)
