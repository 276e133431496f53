"""The default number of threads of a rank."""

import pytest

from trainshed.cluster.node.threads import default_threads


@pytest.mark.parametrize(
    ("variables", "cores", "threads"),
    [
        ({"WORLD_SIZE": "3"}, 2, "1"),
        ({"WORLD_SIZE": "2"}, 16, "8"),
        ({"PET_NNODES": "1:4"}, 16, "4"),
        ({"PET_NNODES": "2", "WORLD_SIZE": "8"}, 16, "2"),
        ({"WORLD_SIZE": "1"}, 16, None),
        ({}, 16, None),
        ({"WORLD_SIZE": "many"}, 16, None),
        ({"WORLD_SIZE": "4", "OMP_NUM_THREADS": "3"}, 16, None),
    ],
)
def test_ranks_share_the_cores(variables: dict[str, str], cores: int, threads: str | None) -> None:
    assert default_threads(variables, cores).get("OMP_NUM_THREADS") == threads
