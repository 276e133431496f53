"""Variables, quotes and patterns, as Dockerfiles and `.dockerignore` have them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trainshed.cluster.images.dockerfile.patterns import PatternError, clean, compiled, read_ignore
from trainshed.cluster.images.dockerfile.words import WordError, expand, split_quoted

VARIABLES = {"A": "one", "EMPTY": "", "FILE": "/a/b.tar.gz", "W": "foobarbaz"}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("$A", "one"),
        ("${A}x", "onex"),
        ("$NONE", ""),
        ("\\$A", "$A"),
        ("'$A'", "$A"),
        ('"$A b"', "one b"),
        ('"\\$A \\" \\n"', '$A " \\n'),
        ("$", "$"),
        ("a$/b", "a$/b"),
        ("${NONE:-x$A}", "xone"),
        ("${EMPTY:-x}", "x"),
        ("${EMPTY-x}", ""),
        ("${A:+yes}", "yes"),
        ("${EMPTY:+yes}", ""),
        ("${EMPTY+yes}", "yes"),
        ("${NONE:-${A}}", "one"),
        ("${FILE##*/}", "b.tar.gz"),
        ("${FILE#*/}", "a/b.tar.gz"),
        ("${FILE%.*}", "/a/b.tar"),
        ("${FILE%%.*}", "/a/b"),
        ("${W/ba?/X}", "fooXbaz"),
        ("${W//ba?/X}", "fooXX"),
        ("${A:?gone}", "one"),
    ],
)
def test_words(word: str, expected: str) -> None:
    assert expand(word, VARIABLES) == expected


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("'a", "single-quote"),
        ('"a', "double-quote"),
        ("${A", "missing '}'"),
        ("${}", "bad substitution"),
        ("${A;x}", "unsupported modifier"),
        ("${NONE:?is needed}", "NONE: is needed"),
        ("${A:-" * 60 + "}" * 60, "one"),
        ("${N:-" * 60 + "}" * 60, "nested too deeply"),
    ],
)
def test_words_that_cannot_be_read(word: str, message: str) -> None:
    if message == "one":
        assert expand(word, VARIABLES) == message
        return
    with pytest.raises(WordError, match=message):
        expand(word, VARIABLES)


def test_words_are_split_outside_quotes() -> None:
    assert split_quoted("a 'b c'  d\\ e \"f g\"h") == ["a", "'b c'", "d\\ e", '"f g"h']


@given(st.text(alphabet="a${}:-+?#%/\\'\" \t*[", max_size=60))
def test_any_word_is_read_or_refused(text: str) -> None:
    split_quoted(text)
    try:
        assert isinstance(expand(text, VARIABLES), str)
    except WordError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.py", "a.py", True),
        ("*.py", "b/a.py", False),
        ("**/*.py", "b/c/a.py", True),
        ("**/*.py", "a.py", True),
        ("b/**", "b/c/d", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("[a-c]x", "bx", True),
        ("[^a]x", "bx", True),
        ("[^a]x", "/x", False),
        ("a\\*", "a*", True),
        ("a\\*", "ab", False),
        ("a.b", "axb", False),
    ],
)
def test_patterns(pattern: str, path: str, fits: bool) -> None:
    assert bool(compiled(pattern).fullmatch(path)) == fits


@pytest.mark.parametrize("pattern", ["[a", "[z-a]", "x" * 5000])
def test_patterns_that_are_none(pattern: str) -> None:
    with pytest.raises(PatternError):
        compiled(pattern)


def test_the_last_rule_that_fits_decides() -> None:
    ignored = read_ignore("# comment\n\n*.log\n!keep.log\n/build/\n**/__pycache__\ndata\n!data/small\n")
    left_out = {"a.log", "build", "build/x", "x/y/__pycache__", "__pycache__/z", "data", "data/big"}
    kept = {"keep.log", "a", "x/a.log", "data/small", "data/small/x"}
    assert {path for path in left_out | kept if ignored(path)} == left_out


@pytest.mark.parametrize(
    ("path", "expected"),
    [(".", ""), ("/", ""), ("a/../b", "b"), ("../../etc/passwd", "etc/passwd"), ("/a//b/.", "a/b")],
)
def test_paths_lead_no_further_than_the_root(path: str, expected: str) -> None:
    assert clean(path) == expected


@example("[?--]", "")
@given(st.text(alphabet="ab*?[]-^!\\/.", max_size=20), st.text(alphabet="ab/.", max_size=20))
def test_any_pattern_is_read_or_refused(pattern: str, path: str) -> None:
    try:
        compiled(pattern).fullmatch(path)
        read_ignore(pattern)(path)
    except PatternError as error:
        assert str(error)
