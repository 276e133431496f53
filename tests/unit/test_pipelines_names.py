"""Which names cross from step to step: the tables of Kale 0.7's own tests, and the cases that it gets wrong."""

from __future__ import annotations

import pytest

from tests.unit.notebook_builder import chain, compiled, flow

FOO = "def foo():\n    print(x)\n"


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (("x = 5", FOO, "foo()"), ["-/x", "x/foo,x", "foo,x/-"]),
        (
            ("x = 5", "def foo():\n    def bar(x):\n        print(x)\n    bar(5)", "foo()\nprint(x)"),
            ["-/x", "-/foo", "foo,x/-"],
        ),
        (
            ("x = 5", "def foo():\n    def bar():\n        print(x)\n    bar()", "foo()"),
            ["-/x", "x/foo,x", "foo,x/-"],
        ),
        (("x = 5", "def foo(x):\n    print(x)", "foo(5)"), ["-/-", "-/foo", "foo/-"]),
        (
            (
                "x = 5\ny = 6",
                "try:\n    def foo():\n        print(x)\n    def bar():\n        print(y)\nexcept:\n    pass",
                "foo()\nbar()",
            ),
            ["-/x,y", "x,y/bar,foo,x,y", "bar,foo,x,y/-"],
        ),
        (("x = 5", f"{FOO}\ndef bar():\n    foo()", "bar()"), ["-/x", "x/bar,foo,x", "bar,foo,x/-"]),
        ((f"x = 5\n{FOO}", "def bar():\n    foo()", "bar()"), ["-/foo,x", "foo,x/bar,foo,x", "bar,foo,x/-"]),
        (
            (
                "x = 5\ndef init():\n    print(x)",
                "def foo():\n    init()",
                "def bar():\n    foo()",
                "foo()\nbar()",
            ),
            ["-/init,x", "init,x/foo,init,x", "foo,init,x/bar,foo,init,x", "bar,foo,init,x/-"],
        ),
        (("n = 1", "n += 1", "print(n)"), ["-/n", "n/n", "n/-"]),
        (("d = {}", "d['a'] = 1", "print(d)"), ["-/d", "d/d", "d/-"]),
        (("x = 1", "y = 2", "print(x)"), ["-/x", "-/-", "x/-"]),
        (("x = 1", "print(x)", "print(x)"), ["-/x", "x/x", "x/-"]),
    ],
)
def test_names_cross_as_in_kale(sources: tuple[str, ...], expected: list[str]) -> None:
    assert flow(chain(*sources)) == expected


def test_functions_with_imports_of_the_prelude() -> None:
    result = chain("x = 5", "def foo(x):\n    print(math.sqrt(x))", "foo(5)", imports="import math")
    assert flow(result) == ["-/-", "-/foo", "foo/-"]


def test_a_parameter_used_inside_a_function_reaches_the_caller() -> None:
    steps = chain("x = 5", "def foo(x):\n    print(x + y)", "foo(5)", parameters="y = 5").checked().steps
    assert [s.parameters for s in steps] == [(), ("y",), ("y",)]


def test_functions_of_branches_meet() -> None:
    result = compiled(
        ("step:init", "x = 1\ny = 2"),
        ("step:l prev:init", "def foo():\n    print(x)"),
        ("step:r prev:init", "def bar():\n    print(y)"),
        ("step:m prev:l prev:r", "def result():\n    foo()\n    bar()"),
        ("step:f prev:m", "result()"),
    )
    assert flow(result) == [
        "-/x,y",
        "x/foo,x",
        "y/bar,y",
        "bar,foo,x,y/bar,foo,result,x,y",
        "bar,foo,result,x,y/-",
    ]


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        pytest.param(("x = 1", "if False:\n    x = 2", "print(x)"), ["-/x", "x/x", "x/-"], id="maybe set"),
        pytest.param(
            ("x = 1\nclass A:\n    def m(self):\n        return x", "A().m()"),
            ["-/A,x", "A,x/-"],
            id="method",
        ),
        pytest.param(("x = 1\nf = lambda: x", "print(f())"), ["-/f,x", "f,x/-"], id="lambda"),
        pytest.param(("x = 1\nasync def f():\n    return x", "await f()"), ["-/f,x", "f,x/-"], id="async"),
        pytest.param(
            ("x = 1\ndef f(v):\n    return v + x", "print(list(map(f, [1])))"),
            ["-/f,x", "f,x/-"],
            id="passed",
        ),
        pytest.param(
            ("x = 1\nclass A:\n    def m(self):\n        return x\na = A()", "a.m()"),
            ["-/a,x", "a,x/-"],
            id="instance",
        ),
        pytest.param(("def f():\n    global g\n    g = 5\nf()", "print(g)"), ["-/g", "g/-"], id="global"),
        pytest.param(("k = [i for i in range(3)]", "print(k)"), ["-/k", "k/-"], id="comprehension"),
        pytest.param(("max = 3", "print(max)"), ["-/max", "max/-"], id="builtin set"),
        pytest.param(
            ("x = 1", "def f():\n    return x\ny = f()\nx = 5", "print(x)"),
            ["-/x", "x/x", "x/-"],
            id="early call",
        ),
        pytest.param(
            ("x = 1", "def f():\n    return x\ndef g():\n    return f()\ny = g()\nx = 5", "print(x)"),
            ["-/x", "x/x", "x/-"],
            id="early call through another",
        ),
        pytest.param(("for i in range(3):\n    pass", "print(i)"), ["-/i", "i/-"], id="loop variable"),
        pytest.param(("x = 1", "!echo {x}"), ["-/x", "x/-"], id="shell line"),
        pytest.param(("x = 1", "!echo ${x} ${HOME} $SHELL {}"), ["-/x", "x/-"], id="shell's variables"),
        pytest.param(("x = 1", "%env X={x + 1}"), ["-/x", "x/-"], id="line magic's text"),
        pytest.param(("x = 1", "\n%%bash -s $x\necho $1"), ["-/x", "x/-"], id="cell magic's text"),
        pytest.param(("%%time\nx = 1", "print(x)"), ["-/x", "x/-"], id="cell magic"),
        pytest.param(("%time x = 1", "print(x)"), ["-/x", "x/-"], id="line magic"),
        pytest.param(("files = !ls", "print(files)"), ["-/files", "files/-"], id="captured"),
        pytest.param(("%%bash --out said\necho x", "print(said)"), ["-/said", "said/-"], id="bash out"),
        pytest.param(("x = 7\ny = (x\n% 3)", "print(y)"), ["-/y", "y/-"], id="continued with percent"),
        pytest.param(("x = 3\ndef g(a=x):\n    return a", "g()"), ["-/g", "g/-"], id="default"),
    ],
)
def test_names_cross_where_kale_fails(sources: tuple[str, ...], expected: list[str]) -> None:
    result = chain(*sources)
    assert flow(result) == expected
    assert not result.diagnostics


@pytest.mark.parametrize(
    ("source", "later", "imported"),
    [
        ("import math", "math.sqrt(2)", "import math"),
        ("import os.path", "os.getcwd()", "import os.path"),
        ("import numpy as np", "np.zeros(1)", "import numpy as np"),
        ("from math import sqrt as root", "root(2)", "from math import sqrt as root"),
        ("from math import *", "sqrt(2)", "from math import *"),
    ],
)
def test_imports_of_a_step_run_again_in_those_that_use_them(source: str, later: str, imported: str) -> None:
    result = chain(source, later, later)
    steps = result.checked().steps
    for step in steps[1:]:
        assert [b.source for b in step.blocks] == [imported, later]
        assert step.inputs == ()


def test_functions_of_the_prelude_bring_names_only_to_their_callers() -> None:
    result = chain("x = 1", "y = 2", "helper()", functions="def helper():\n    return x")
    assert flow(result) == ["-/x", "-/-", "x/-"]


def test_a_variable_of_the_prelude_crosses_once_a_step_changed_it() -> None:
    result = chain("print(cache)", "cache['a'] = 1", "print(cache)", functions="cache = {}")
    assert flow(result) == ["-/-", "-/cache", "cache/-"]


def test_a_parameter_that_a_step_sets_again_flows_on_as_data() -> None:
    result = chain("print(lr)", "lr = lr / 2", "print(lr)", parameters="lr = 1.0")
    assert flow(result) == ["-/-", "-/lr", "lr/-"]
    assert [s.parameters for s in result.checked().steps] == [("lr",), ("lr",), ()]


def test_the_later_of_two_steps_hands_on_what_it_may_have_changed() -> None:
    result = compiled(
        ("step:b", "xs = []"),
        ("step:a prev:b", "xs.append(1)"),
        ("step:c prev:b prev:a", "print(xs)"),
    )
    (loaded,) = result.checked().step("c").inputs
    assert loaded.step == "a"


@pytest.mark.parametrize("change", ["xs.append(1)", "xs[0] = 1", "fill(xs)", "xs.sort()", "ys = xs"])
def test_a_change_is_seen_even_when_its_step_comes_later_by_name(change: str) -> None:
    result = compiled(
        ("functions", "def fill(v):\n    v.append(1)"),
        ("step:a", "xs = [2]"),
        ("step:b prev:a", change),
        ("step:c prev:a prev:b", "print(xs)"),
    )
    (loaded,) = result.checked().step("c").inputs
    assert loaded.step == "b"


@pytest.mark.parametrize("change", ["xs = [2]", "xs.append(2)", "xs[0] = 2", "del xs[0]"])
def test_two_steps_at_the_same_time_may_not_both_change_a_name(change: str) -> None:
    result = compiled(
        ("step:a", "xs = [1]"),
        ("step:b prev:a", change),
        ("step:c prev:a", change),
        ("step:d prev:b prev:c", "print(xs)"),
    )
    (found,) = [d for d in result.diagnostics if d.code == "NB203"]
    assert result.pipeline is None
    assert found.message == "xs is set by b and by c, which may run at the same time"
    assert (found.cell, found.line, found.step) == (4, 1, "d")


def test_a_name_of_a_step_that_is_not_before_is_an_error_with_the_nearest_producer() -> None:
    result = compiled(("step:a", "x = 1"), ("step:b", "x = 2"), ("step:c", "\nprint(x)"))
    (found,) = result.diagnostics
    assert (found.code, found.cell, found.line, found.fix) == ("NB201", 3, 2, "add prev:b")


def test_a_misspelt_name_is_a_warning() -> None:
    result = chain("x = 1", "print(y)")
    assert [d.code for d in result.diagnostics] == ["NB202"]
    assert result.pipeline is not None


def test_a_step_around_another_that_shares_names_is_reported() -> None:
    around = compiled(("step:a", "x = 1"), ("step:b prev:a", "x += 1"), ("step:a", "x += 10"))
    assert "NB114" in [d.code for d in around.diagnostics]
    apart = compiled(("step:a", "x = 1"), ("step:b prev:a", "y = 1"), ("step:a", "x += 10"))
    assert apart.diagnostics == ()
    assert [len(s.blocks) for s in apart.checked().steps] == [2, 1]


def test_a_deleted_name_is_an_error() -> None:
    result = chain("x = 1", "del x", "print(x)")
    assert [d.code for d in result.diagnostics] == ["NB206"]


@pytest.mark.parametrize(
    "leftover", ["with open('f') as fh:\n    q = 1", "try:\n    q = 1\nexcept OSError as error:\n    q = 2"]
)
def test_what_is_left_over_of_a_block_is_not_saved_unless_read(leftover: str) -> None:
    assert flow(chain(leftover, "print(q)")) == ["-/q", "q/-"]


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("g = (i for i in range(3))", "a generator"),
        ("def make():\n    yield 1\ng = make()", "a generator"),
        ("g = open('file')", "an open file"),
        ("import threading\ng = threading.Lock()", "a lock"),
    ],
)
def test_objects_that_cannot_be_saved_are_found_before_a_run(source: str, kind: str) -> None:
    (found,) = chain(source, "print(g)").diagnostics
    assert found.code == "NB207"
    assert found.message == f"g is {kind}, which cannot be saved, and step s2 needs it"
    assert not chain(source, "print(1)").diagnostics


def test_two_names_of_one_object_are_reported_where_one_is_changed() -> None:
    assert [d.code for d in chain("a = []\nb = a", "a.append(1)\nprint(b)").diagnostics] == ["NB209"]
    assert not chain("a = []\nb = a", "print(a, b)").diagnostics
    touched = chain("a = []\nb = a", "shuffle(a)\nprint(b)", imports="from random import shuffle")
    assert [d.code for d in touched.diagnostics] == ["NB209"]
    assert not chain("a = []\nb = a", "print(a, b)", "a = 1\nprint(b)").diagnostics, "another object"


def test_the_order_of_the_notebook_that_is_not_kept_is_reported() -> None:
    result = compiled(("step:a", "x = 1"), ("step:b prev:a", "x = 2"), ("step:c prev:a", "print(x)"))
    assert [d.code for d in result.diagnostics] == ["NB205"]


def test_imports_and_modules_are_no_changes() -> None:
    result = compiled(
        ("imports", "import os\nimport random"),
        ("step:a", "import os\nrandom.seed(1)\nos.environ['A'] = 'b'"),
        ("step:b", "print(os.getcwd(), random.random())"),
    )
    assert result.diagnostics == ()


def test_constants_of_the_prelude_stay_where_they_are() -> None:
    result = chain(
        "print(sorted(KEYS))\nopen(PATH, 'r')", "print(PATH)", functions="PATH = 'a/b'\nKEYS = ('a', -1)"
    )
    assert flow(result) == ["-/-", "-/-"]


def test_what_every_step_makes_may_be_left_unsaved() -> None:
    result = chain(
        "client.get('a')\nx = 1", "client.get(x)", functions="client = make_client()\ndef make_client(): ..."
    )
    (first, _) = result.checked().steps
    assert (first.outputs, first.fallbacks) == (("client", "x"), ("client",))
