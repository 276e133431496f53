"""`compile --kfp-host`: KFP's own client against a server that answers as KFP's v2beta1 API does."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from typer.testing import CliRunner

from tests.unit.notebook_builder import content
from trainshed.cli.main import app

NOTEBOOK = str(Path(__file__).parents[2] / "examples/notebooks/candies.ipynb")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


class Kfp:
    """The part of KFP's API that has pipelines, their versions, experiments and runs."""

    def __init__(self) -> None:
        self.runs: list[Any] = []
        self.experiments: list[dict[str, str]] = []
        self.pipelines: list[dict[str, str]] = []
        self.versions: list[dict[str, str]] = []
        self.uploads: list[str] = []
        self.refuses = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, asked = self.asked()
                if path == "pipelines":
                    self.answer({"pipelines": named(outer.pipelines, asked) or None})
                elif path == "experiments":
                    self.answer({"experiments": named(outer.experiments, asked) or None})
                elif found := re.fullmatch(r"pipelines/(\w+)/versions", path):
                    versions = [v for v in outer.versions if v["pipeline_id"] == found[1]]
                    at = int(asked.get("page_token") or 0)  # a version a page, so that pages are asked for
                    more = str(at + 1) if at + 1 < len(versions) else None
                    self.answer({"pipeline_versions": versions[at : at + 1], "next_page_token": more})
                elif path == "healthz":
                    self.answer({"multi_user": False})
                else:
                    self.answer({}, 404)

            def do_POST(self) -> None:
                path, asked = self.asked()
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                if outer.refuses:
                    self.answer({"error": "no room"}, 500)
                elif path == "pipelines/upload":
                    made = {"pipeline_id": f"p{len(outer.pipelines)}", "display_name": asked["name"]}
                    outer.pipelines.append(made)
                    outer.add_version(made["pipeline_id"], asked["name"], body)
                    self.answer(made)
                elif path == "pipelines/upload_version":
                    self.answer(outer.add_version(asked["pipelineid"], asked["name"], body))
                elif path == "experiments":
                    outer.experiments.append({**json.loads(body), "experiment_id": "e1"})
                    self.answer(outer.experiments[-1])
                elif path == "runs":
                    outer.runs.append(json.loads(body))
                    self.answer({"run_id": f"r{len(outer.runs)}"})
                else:
                    self.answer({}, 404)

            def asked(self) -> tuple[str, dict[str, str]]:
                url = urlsplit(self.path)
                return url.path.removeprefix("/apis/v2beta1/"), {
                    key: values[0] for key, values in parse_qs(url.query).items()
                }

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

    def add_version(self, pipeline_id: str, name: str, body: str) -> dict[str, str]:
        number = str(len(self.versions))
        made = {"pipeline_id": pipeline_id, "pipeline_version_id": f"v{number}", "display_name": name}
        self.versions.append(made)
        self.uploads.append(body)
        return made


def named(objects: list[dict[str, str]], asked: dict[str, str]) -> list[dict[str, str]]:
    """Return the objects whose name a filter of KFP asks for."""
    predicates = json.loads(asked["filter"])["predicates"] if asked.get("filter") else []
    wanted = [p.get("stringValue") or p.get("string_value") for p in predicates]
    return [one for one in objects if not wanted or one["display_name"] in wanted]


@pytest.fixture
def kfp() -> Iterator[Kfp]:
    it = Kfp()
    thread = threading.Thread(target=it.server.serve_forever)
    thread.start()
    yield it
    it.server.shutdown()
    thread.join()
    it.server.server_close()


def compile_to(host: str, *more: str, notebook: str = NOTEBOOK) -> Any:
    return CliRunner().invoke(app, ["notebook", "compile", notebook, "--kfp-host", host, *more])


def test_the_pipeline_is_uploaded_and_runs_there(kfp: Kfp) -> None:
    done = compile_to(kfp.url, "-p", "CANDIES=30", "--run-name", "sweets")
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{kfp.url}/#/runs/details/r1\n"
    assert [p["display_name"] for p in kfp.pipelines] == ["candies-sharing"]
    (uploaded,) = kfp.uploads
    text = uploaded[uploaded.index("\r\n\r\n") + 4 : uploaded.rindex("\r\n--")]
    assert next(yaml.safe_load_all(text))["pipelineInfo"]["name"] == "candies-sharing"
    (run,) = kfp.runs
    assert run["display_name"] == "sweets"
    assert run["runtime_config"]["parameters"] == {"CANDIES": 30}
    assert run["pipeline_version_reference"] == {"pipeline_id": "p0", "pipeline_version_id": "v0"}
    assert [e["display_name"] for e in kfp.experiments] == ["candies"]


def test_what_is_new_is_another_version_and_the_same_is_none(kfp: Kfp, tmp_path: Path) -> None:
    for source in ("x = 1", "x = 2", "x = 2", "x = 3"):
        file = tmp_path / "n.ipynb"
        file.write_bytes(content(("step:a", source), pipeline_name="n", experiment_name="tries"))
        done = compile_to(kfp.url, notebook=str(file))
        assert done.exit_code == 0, done.output
    assert [run["pipeline_version_reference"]["pipeline_version_id"] for run in kfp.runs] == [
        "v0",
        "v1",
        "v1",
        "v2",
    ]
    assert len(kfp.pipelines) == 1
    assert {run["experiment_id"] for run in kfp.runs} == {"e1"}
    assert [e["display_name"] for e in kfp.experiments] == ["tries"]


def test_a_host_that_does_not_take_it_is_an_error_in_one_line(kfp: Kfp) -> None:
    kfp.refuses = True
    done = compile_to(kfp.url, "--to", "kfp")
    assert done.exit_code == 1
    assert f"{kfp.url} does not take the pipeline" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_parameter_of_another_type_is_refused_here(kfp: Kfp) -> None:
    done = compile_to(kfp.url, "-p", "CANDIES=many")
    assert done.exit_code == 1
    assert "parameter CANDIES: must be int, not 'many'" in done.stderr
    assert not kfp.runs


def test_a_host_of_kfp_takes_no_other_form(kfp: Kfp) -> None:
    done = compile_to(kfp.url, "--to", "tekton")
    assert done.exit_code == 1
    assert "--kfp-host is for --to kfp" in done.stderr
