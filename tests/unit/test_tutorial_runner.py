"""The runner of the tutorials must be able to fail."""

import pytest

from tests.tutorial import blocks, commands, missing_line

TEXT = """
```yaml file=a.yaml
kind: Pod
```

```console wait=5
$ kubectl get pods
NAME READY STATUS
job-… 1/1 Running …
$ true
```
"""


def test_blocks_and_commands() -> None:
    first, second = blocks(TEXT)
    assert (first.options, first.text) == ({"file": "a.yaml"}, "kind: Pod\n")
    assert [c.text for c in commands(second.text)] == ["kubectl get pods", "true"]
    assert second.options == {"wait": "5"}


@pytest.mark.parametrize(
    ("expected", "output", "lacking"),
    [
        (("NAME READY", "job-… 1/1 Running …"), "NAME    READY\njob-0   1/1   Running   0   3s", None),
        (("a …",), "a", None),
        (("b", "a"), "a\nb", "a"),
        (("job-… 1/1 Running",), "job-0 0/1 Running", "job-… 1/1 Running"),
        (("loss=…",), "loss", "loss=…"),
    ],
)
def test_expected_lines_appear_in_order(expected: tuple[str, ...], output: str, lacking: str | None) -> None:
    assert missing_line(expected, output) == lacking
