"""`images.yaml`: what is meant is taken, anything else is refused in a line that says where."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainshed.sdk.errors import UserError
from trainshed.sdk.images import read


def write(folder: Path, entry: str) -> Path:
    file = folder / "images.yaml"
    file.write_text(f"images:\n  - {entry}\n")
    return file


@pytest.mark.parametrize("entrypoint", ["python3 -u '/opt/c/t r.py'", "[python3, -u, /opt/c/t r.py]"])
def test_an_entrypoint_is_a_command_line_or_its_words(tmp_path: Path, entrypoint: str) -> None:
    file = tmp_path / "images.yaml"
    file.write_text(
        f"images:\n  - name: a\n    entrypoint: {entrypoint}\n    env: {{A: 1}}\n    workdir: /w\n"
    )
    image = read(file)["a"]
    assert (image.entrypoint, image.env, image.workdir) == (
        ("python3", "-u", "/opt/c/t r.py"),
        {"A": "1"},
        "/w",
    )


@pytest.mark.parametrize(
    ("entry", "message", "hint"),
    [
        ("{name: a, layer: []}", "images[0].layer: unknown field", "did you mean layers?"),
        ("{name: a, env: [a=b]}", 'images[0].env: Invalid value: ["a=b"]: must be a map', ""),
        ("{name: a, layers: {a: b}}", "images[0].layers: Invalid value:", ""),
        ("{name: a, layers: [{source: x, path: y}]}", 'images[0].layers[0].path: Invalid value: "y"', ""),
        ("{name: a, layers: [{source: x}]}", "images[0].layers[0].path: Required value", ""),
        (
            "{name: a, layers: [{source: gone, path: /y}]}",
            'images[0].layers[0].source: Invalid value: "gone": there is no such directory',
            "",
        ),
        ("{name: a, layers: [x]}", 'images[0].layers[0]: Invalid value: "x": must be a map', ""),
        ("{name: a, entrypoint: 5}", "images[0].entrypoint: Invalid value: 5: must be a command line", ""),
        ('{name: a, entrypoint: "a \'b"}', "No closing quotation", ""),
        ("{name: a, workdir: [b]}", "images[0].workdir: Invalid value", ""),
        ("{layers: []}", "images[0].name: Required value", ""),
        ("word", 'images[0]: Invalid value: "word": must be a map', ""),
        ("[unclosed", "images.yaml:3: not YAML", ""),
    ],
)
def test_anything_else_is_refused_in_one_line(tmp_path: Path, entry: str, message: str, hint: str) -> None:
    with pytest.raises(UserError) as refused:
        read(write(tmp_path, entry))
    assert message in str(refused.value) and "\n" not in str(refused.value)
    assert refused.value.hint == hint
