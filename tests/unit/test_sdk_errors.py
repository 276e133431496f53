"""One voice for failures: what each expected one says, with which hint and exit code."""

from __future__ import annotations

import errno
import pickle

import pytest

from trainshed.client.config import ConfigError
from trainshed.client.transport import TransportError
from trainshed.cluster.control.launcher import StartFailed
from trainshed.cluster.images.directories import ImageProblem
from trainshed.cluster.paths import StateError
from trainshed.kube.meta.errors import ApiError, bad_request, not_found
from trainshed.sdk.errors import REFUSED, UNAVAILABLE, Explanation, JobFailed, UserError, explain
from trainshed.sdk.summary import Failure

FAILURE = Failure("3 replicas failed", "worker-1", "train-worker-1", "Error", 7, tail=("last words",))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UserError("no", "do this", UNAVAILABLE), Explanation("no", "do this", UNAVAILABLE)),
        (StateError("not yours", "take another"), Explanation("not yours", "take another")),
        (StartFailed("no port", "take another"), Explanation("no port", "take another", UNAVAILABLE)),
        (not_found("pods", "", "x"), Explanation('pods "x" not found')),
        (
            not_found("namespaces", "", "x"),
            Explanation('namespaces "x" not found', "kubectl create namespace x"),
        ),
        (
            bad_request('strict decoding error: unknown field "spec.x"'),
            Explanation(
                'strict decoding error: unknown field "spec.x"',
                "trainshed check says which field may be meant",
            ),
        ),
        (
            ApiError(
                500,
                "InternalError",
                "failed to create typed patch object (ns/bad; kubeflow.org/v1, Kind=PyTorchJob): "
                ".spec.runPolicy.ttl: field not declared in schema",
            ),
            Explanation(
                "PyTorchJob ns/bad: spec.runPolicy.ttl: field not declared in schema",
                "trainshed check says which field may be meant",
            ),
        ),
        (
            ApiError(
                400,
                "BadRequest",
                "failed to create typed patch object (ns/a; v1, Kind=Pod): errors:\n"
                "  .spec.x: expected map, got &{1}\n  .spec.y: expected list, got &{2}",
            ),
            Explanation("Pod ns/a: spec.x: expected map, got &{1}; spec.y: expected list, got &{2}"),
        ),
        (
            TransportError("refused"),
            Explanation("the API server does not answer: refused", "trainshed up starts the local cluster"),
        ),
        (ConfigError("no context 'x'"), Explanation("no context 'x'")),
        (ImageProblem("x:1", "no such directory"), Explanation("no such directory")),
        (TimeoutError("process 7 does not end"), Explanation("process 7 does not end")),
        (
            OSError(errno.ENOSPC, "No space left on device", "/x"),
            Explanation("/x: No space left on device", "free some space, then try again"),
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/x"),
            Explanation("/x: Permission denied", "set TRAINSHED_HOME to a directory that you may write to"),
        ),
        (
            OSError(errno.EIO, "Input/output error", "/x"),
            Explanation(
                "/x: Input/output error", "the disk does not work: the kernel's messages (dmesg) say more"
            ),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_each_failure_says(error: Exception, said: Explanation) -> None:
    assert explain(error) == said


@pytest.mark.parametrize("bug", [KeyError("x"), TimeoutError(), FileNotFoundError(errno.ENOENT, "no", "/x")])
def test_a_bug_has_no_explanation(bug: Exception) -> None:
    assert explain(bug) is None


def test_a_failed_job_names_who_was_first_and_its_last_words() -> None:
    error = JobFailed("PyTorchJob train", FAILURE)
    assert str(error).splitlines() == [
        "PyTorchJob train failed",
        "worker-1 failed first: Error, exit code 7 (pod train-worker-1)",
        "  last words",
        "3 replicas failed",
    ]
    assert explain(error) == Explanation(str(error), "", REFUSED)


def test_a_failed_job_travels_between_processes() -> None:
    again = pickle.loads(pickle.dumps(JobFailed("PyTorchJob train", FAILURE)))
    assert (again.job, again.failure) == ("PyTorchJob train", FAILURE)


def test_a_signal_says_more_than_the_exit_code() -> None:
    killed = Failure("failed", "worker-0", "train-worker-0", "OOMKilled", 137, 9, "too much")
    assert killed.lines()[:2] == [
        "worker-0 failed first: OOMKilled, signal 9 (pod train-worker-0)",
        "  too much",
    ]
