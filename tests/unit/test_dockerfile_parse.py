"""Dockerfiles → instructions: what each line means, and where it is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.cluster.images.dockerfile import instructions as i
from trainshed.cluster.images.dockerfile.evaluation import evaluate
from trainshed.cluster.images.dockerfile.lines import DockerfileError
from trainshed.cluster.images.dockerfile.parse import parse
from trainshed.cluster.images.dockerfile.planning import plan as plan_of
from trainshed.cluster.images.dockerfile.steps import Options
from trainshed.cluster.images.oci import RunConfig


def one(text: str, head: str = "FROM x\n") -> i.Instruction:
    """Return the only instruction after FROM."""
    (stage,) = parse(head + text).stages
    (found,) = stage.instructions
    return found


def test_stages_and_the_arguments_before_them() -> None:
    parsed = parse("ARG V=1\nFROM a:$V AS One\nRUN x\nFROM --platform=linux/arm64 scratch\n")
    assert [(s.source.image, s.source.stage, s.source.platform) for s in parsed.stages] == [
        ("a:$V", "one", ""),
        ("scratch", "", "linux/arm64"),
    ]
    assert parsed.arguments[0].pairs == (i.Pair("V", "1"),)


def test_lines_continue_and_comments_between_them_go() -> None:
    found = one("# before\n\nRUN a \\\n  # a comment\n\n  && b \\  \n  && c\n# after\n")
    assert isinstance(found, i.Run)
    assert (found.line, found.end) == (4, 8)
    assert found.command == i.Command(("a   && b   && c",), True)


def test_directives_choose_the_escape() -> None:
    parsed = parse("# syntax=docker/dockerfile:1\n# escape=`\nFROM x\nRUN a `\n b\\\n")
    (found,) = parsed.stages[0].instructions
    assert isinstance(found, i.Run) and found.command.argv == ("a  b\\",)


def test_a_byte_order_mark_and_carriage_returns_do_not_matter() -> None:
    assert one("RUN a \\\r\n b\r\n", "\ufeffFROM x\r\n").text == "RUN a  b"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ('RUN ["a", "b c"]', i.Command(("a", "b c"))),
        ("RUN ['a', 'b']", i.Command(("['a', 'b']",), True)),
        ("RUN [1]", i.Command(("[1]",), True)),
        ("run  echo  hi", i.Command(("echo  hi",), True)),
        ("RUN --mount=type=cache,target=/c --network=default echo", i.Command(("echo",), True)),
    ],
)
def test_commands(text: str, command: i.Command) -> None:
    found = one(text)
    assert isinstance(found, i.Run) and found.command == command


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("ENV A=1 B=\"x y\" C='z'", [("A", "1"), ("B", '"x y"'), ("C", "'z'")]),
        ("ENV A  one two ", [("A", "one two")]),
        ("ENV A=a\\ b", [("A", "a\\ b")]),
        ("ENV A= B=", [("A", ""), ("B", "")]),
    ],
)
def test_pairs(text: str, pairs: list[tuple[str, str]]) -> None:
    found = one(text)
    assert isinstance(found, i.Env) and [(p.name, p.value) for p in found.pairs] == pairs


def test_here_documents() -> None:
    parsed = parse(
        "FROM x\nRUN <<EOF\necho 1\n\n# no comment\nEOF\n"
        "COPY <<a.txt <<-'b' /d/\none\na.txt\n\t\ttwo\n\tb\nRUN cat <<E | sh\nx\nE\n"
    )
    first, second, third = parsed.stages[0].instructions
    assert isinstance(first, i.Run) and first.heredocs[0].content == "echo 1\n\n# no comment\n"
    assert isinstance(second, i.Copy) and second.sources == () and second.target == "/d/"
    assert [(h.name, h.content, h.expand) for h in second.heredocs] == [
        ("a.txt", "one\n", True),
        ("b", "two\n", False),
    ]
    assert (
        isinstance(third, i.Run)
        and third.heredocs[0].content == "x\n"
        and (third.line, third.end) == (12, 14)
    )


def test_what_only_looks_like_a_here_document() -> None:
    for text in ('RUN echo "a <<EOF b"', "RUN echo $((1<<3))", "ENV A=<<EOF"):
        assert one(text).end == 2


def test_health_checks() -> None:
    found = one("HEALTHCHECK --interval=1m30s --retries=3 CMD curl -f http://x || exit 1")
    assert isinstance(found, i.HealthCheck)
    assert (found.interval, found.retries, found.command) == (
        90 * 10**9,
        3,
        i.Command(("curl -f http://x || exit 1",), True),
    )
    none = one("HEALTHCHECK NONE")
    assert isinstance(none, i.HealthCheck) and none.command is None


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "no FROM"),
        ("# only\n", 1, "no FROM"),
        ("RUN x\nFROM y", 1, "FROM comes first"),
        ("FROM x\n\nRNU y", 3, "unknown instruction: RNU (did you mean RUN?)"),
        ("FROM x\nRUN", 2, "RUN requires at least one argument"),
        ("FROM x y", 1, "FROM requires either one or three arguments"),
        ("FROM x AS 1", 1, "invalid name for build stage"),
        ("FROM x AS a\nFROM y AS A", 2, "duplicate name a"),
        ("FROM x\nCOPY a", 2, "COPY requires at least two arguments"),
        ("FROM x\nCOPY a b c", 2, "must be a directory"),
        ("FROM x\nCOPY --form=a b c", 2, "unknown flag: --form; did you mean --from?"),
        ("FROM x\nADD --from=a b c", 2, "ADD has no flag --from"),
        ("FROM x\nCOPY --parents a b", 2, "--parents is not honoured"),
        ("FROM x\nCOPY --from=a --from=b c d", 2, "duplicate flag"),
        ("FROM x\nENV A", 2, "ENV must have two arguments"),
        ("FROM x\nENV A=1 B", 2, "can't find ="),
        ("FROM x\nLABEL =1", 2, "names can not be blank"),
        ("FROM x\nARG 1=2", 2, "ARG names a variable"),
        ("FROM x\nSHELL /bin/bash -c", 2, "JSON form"),
        ("FROM x\nONBUILD RUN y", 2, "ONBUILD is not honoured"),
        ("FROM x\nHEALTHCHECK curl", 2, "unknown type"),
        ("FROM x\nHEALTHCHECK --interval=soon CMD x", 2, "invalid duration"),
        ("FROM x\nHEALTHCHECK --retries=x CMD x", 2, "must be a number"),
        ("FROM x\nHEALTHCHECK CMD", 2, "missing command"),
        ("FROM x\nUSER a b", 2, "exactly one"),
        ("FROM x\nRUN <<EOF\nno end", 2, "unterminated heredoc: no line 'EOF' ends it"),
        ("FROM x\nRUN --security=insecure y", 2, "not honoured"),
        ("FROM x\nRUN --network=host y", 2, "not honoured"),
        ("# escape=x\nFROM y", 1, "invalid ESCAPE"),
        ("FROM x\nRUN a\0b", 2, "NUL"),
        ("FROM x\nVOLUME []", 2, "VOLUME"),
    ],
)
def test_what_is_wrong_has_a_line(text: str, line: int, message: str) -> None:
    with pytest.raises(DockerfileError) as caught:
        parse(text)
    assert message in caught.value.message
    assert caught.value.line == line


_TOKENS = (
    "FROM RUN COPY ADD ENV ARG LABEL WORKDIR USER SHELL EXPOSE VOLUME HEALTHCHECK CMD ENTRYPOINT ONBUILD "
    "scratch AS --from= --mount=type=cache, <<EOF EOF <<-'a' \\ [ \" ' $ { } ${A:- ${B%% = # ` a / .. ] , :?"
)
_WORDS = st.sampled_from([*_TOKENS.split(), "\n", " ", "\t", "\0", "# escape=`", "\ufeff", "é", "\udcff"])


@given(st.lists(_WORDS, max_size=40).map("".join) | st.text(max_size=200))
def test_nothing_but_errors_with_lines_comes_of_any_text(text: str) -> None:
    for whole in (text, f"FROM scratch\n{text}"):
        count = whole.count("\n") + 1
        try:
            parsed = parse(whole)
            for stage in parsed.stages:
                for found in stage.instructions:
                    assert 1 <= found.line <= found.end <= count
            options = Options(arguments={"A": "1"})
            plan = plan_of(parsed, options)
            for stage in plan.stages:
                evaluate(plan, stage, RunConfig(env=("A=b", "PATH=/bin")), options)
        except DockerfileError as error:
            assert 1 <= error.line <= error.end <= max(count, 1), error
            assert error.message
