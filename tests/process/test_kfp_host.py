"""`compile --to kfp --kfp-host`: KFP's own client against a server that answers as KFP's API does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from trainshed.cli.main import app

NOTEBOOK = str(Path(__file__).parents[2] / "examples/notebooks/candies.ipynb")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


class Kfp:
    """What KFP's API was asked for."""

    def __init__(self) -> None:
        self.runs: list[Any] = []
        self.refuses = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer({"experiments": [{"experiment_id": "e1", "display_name": "Default"}]})

            def do_POST(self) -> None:
                outer.runs.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.answer({"run_id": "r1"}, 500 if outer.refuses else 200)

            def answer(self, document: Any, status: int = 200) -> None:
                data = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def kfp() -> Iterator[Kfp]:
    it = Kfp()
    thread = threading.Thread(target=it.server.serve_forever)
    thread.start()
    yield it
    it.server.shutdown()
    thread.join()
    it.server.server_close()


def compile_to(host: str, *more: str) -> Any:
    return CliRunner().invoke(
        app, ["notebook", "compile", NOTEBOOK, "--to", "kfp", "--kfp-host", host, *more]
    )


def test_the_pipeline_runs_there(kfp: Kfp) -> None:
    done = compile_to(kfp.url, "-p", "CANDIES=30", "--run-name", "sweets")
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{kfp.url}/#/runs/details/r1\n"
    (run,) = kfp.runs
    assert run["display_name"] == "sweets"
    assert run["runtime_config"]["parameters"] == {"CANDIES": 30}
    assert run["pipeline_spec"]["pipelineInfo"]["name"] == "candies-sharing"


def test_a_host_that_does_not_take_it_is_an_error_in_one_line(kfp: Kfp) -> None:
    kfp.refuses = True
    done = compile_to(kfp.url)
    assert done.exit_code == 1
    assert f"{kfp.url} does not take the pipeline" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_parameter_of_another_type_is_refused_here(kfp: Kfp) -> None:
    done = compile_to(kfp.url, "-p", "CANDIES=many")
    assert done.exit_code == 1
    assert "parameter CANDIES: must be int, not 'many'" in done.stderr
    assert not kfp.runs
