"""The examples become what Kale makes of notebooks of the same structure."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.notebook_builder import edges
from trainshed.pipelines.compilation import compile_notebook
from trainshed.pipelines.ir import Compiled
from trainshed.pipelines.notebook.cells import Notebook, read

ROOT = Path(__file__).parents[2]


@functools.cache
def beside(folder: Path) -> Mapping[str, Notebook]:
    """Return the notebooks of a folder by their names, read once; nobody changes them."""
    return {p.name: read(p.read_bytes(), p.stem) for p in folder.glob("*.ipynb")}


def example(name: str, folder: str = "examples/notebooks") -> Compiled:
    path = ROOT / folder / name
    return compile_notebook(read(path.read_bytes(), path.stem), beside(path.parent))


MODELS = {
    "randomforest": "acc_random_forest",
    "logisticregression": "acc_log",
    "naivebayes": "acc_gaussian",
    "svm": "acc_linear_svc",
    "decisiontree": "acc_decision_tree",
}

BASELINES = {
    "candies.ipynb": [
        "sack <-  |  |  | CANDIES",
        "kid1 <- sack |  | kid1 | CANDIES",
        "kid2 <- kid1 | kid1 | kid2 | CANDIES",
        "kid3 <- kid1, kid2 | kid1, kid2 |  | CANDIES",
    ],
    "parameters-and-metrics.ipynb": [
        "create_matrix <-  |  | rnd_matrix | d1, d2",
        "sum_matrix <- create_matrix | rnd_matrix |  | ",
    ],
    "titanic.ipynb": [
        "loaddata <-  |  | PREDICTION_LABEL, test_df, train_df | ",
        "datapreprocessing <- loaddata | test_df, train_df | test_df, train_df | ",
        "featureengineering <- datapreprocessing | PREDICTION_LABEL, test_df, train_df | train_df, train_labels | ",
        *(
            f"{name} <- featureengineering | train_df, train_labels | {accuracy} | "
            for name, accuracy in MODELS.items()
        ),
        f"results <- {', '.join(sorted(MODELS))} | {', '.join(sorted(MODELS.values()))} |  | ",
    ],
    "distributed-pytorch.ipynb": [
        "data <-  |  | x, y | ",
        "train <- data | x, y | weights, x, y | LR, STEPS",
        "evaluate <- train | weights, x, y |  | ",
    ],
    "distributed-jax.ipynb": [
        "data <-  |  | inputs, targets, wanted | ",
        "train <- data | inputs, targets | weights | STEPS",
        "evaluate <- train | wanted, weights |  | ",
    ],
    "distributed-xgboost.ipynb": [
        "data <-  |  | labels, points | ",
        "train <- data | labels, points | booster, labels, points | ROUNDS",
        "evaluate <- train | booster, labels, points |  | ",
    ],
}


@pytest.mark.parametrize("name", BASELINES)
def test_steps_edges_inputs_outputs_and_parameters(name: str) -> None:
    result = example(name)
    assert edges(result) == BASELINES[name]
    assert result.diagnostics == ()


def test_metrics_belong_to_the_last_step_that_has_them() -> None:
    pipeline = example("parameters-and-metrics.ipynb").checked()
    assert {s.name: [m.key for m in s.metrics] for s in pipeline.steps} == {
        "create_matrix": ["d1", "d2"],
        "sum_matrix": ["sum-result"],
    }
    assert [(p.name, p.type, p.default) for p in pipeline.parameters] == [
        ("d1", "int", 5),
        ("d2", "int", 6),
        ("booltest", "bool", True),
        ("strtest", "str", "test"),
    ]
    assert pipeline.step("create_matrix").settings.limits == {"nvidia.com/gpu": "2"}


def test_the_distributed_demo_has_three_workers() -> None:
    pipeline = example("distributed-tensorflow.ipynb").checked()
    data = "batch_size, epochs, input_shape, num_classes, x_train, y_train"
    assert edges(pipeline) == [
        "variables <-  |  | batch_size, epochs, input_shape, num_classes | ",
        "dataprocessing <- variables | num_classes | num_classes, x_test, x_train, y_test, y_train | ",
        f"training <- dataprocessing | {data} |  | ",
        "modelevaluation <- training | x_test, y_test |  | ",
    ]
    training = pipeline.step("training")
    assert training.distribution is not None
    assert (training.distribution.kind, training.distribution.workers) == ("TFJob", 3)
    assert [b.role for b in training.blocks] == ["imports", "functions", "step"]


def test_a_notebook_of_notebooks() -> None:
    result = example("composed.ipynb", "tests/notebooks")
    assert edges(result) == [
        "start <-  |  | seed | COUNT",
        "numbers_make <- start | seed | numbers | COUNT, STEP",
        "numbers_add <- numbers_make | numbers | total | ",
        "letters_spell <- start |  | word | ",
        "join <- letters_spell, numbers_add | total, word |  | ",
    ]
    pipeline = result.checked()
    assert {p.name: p.default for p in pipeline.parameters} == {"COUNT": 3, "STEP": 1}
    assert pipeline.step("join").blocks[0].source == 'intro = "together"'
    assert [b.role for b in pipeline.step("letters_spell").blocks] == ["functions", "step"]


def test_every_kind_of_line_is_understood() -> None:
    result = example("every-kind-of-line.ipynb", "tests/notebooks")
    assert edges(result) == [
        "shell <-  |  | files, said, total | ",
        "write <- shell |  |  | ",
        "last <- shell, write | files, said, total |  | ",
    ]
    assert result.diagnostics == ()
