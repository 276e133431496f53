"""When a container that ended runs again: restart policy and crash-loop back-off.

Back-off follows the kubelet (pkg/kubelet/kuberuntime, `doBackOff`): the first restart is immediate, then
10 s, 20 s, … up to 300 s after the end of the last run; a run of more than ten minutes starts over, and so does
the node agent: it remembers no back-off of an earlier life, so a cluster that was stopped comes back at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainshed.cluster.node.pod.observed import Attempt

INITIAL_BACKOFF = 10.0
MAX_BACKOFF = 300.0
RESET_AFTER = 600.0


def should_restart(policy: str, attempt: Attempt) -> bool:
    """Say whether `restartPolicy` wants another run after `attempt`, which has ended."""
    if policy == "Always":
        return True
    return policy == "OnFailure" and attempt.failed


def backoff_seconds(attempts: Sequence[Attempt]) -> float:
    """Return how long after the newest attempt's end the next may start; 0 when at once."""
    delay = 0.0
    for position, attempt in enumerate(attempts):
        if attempt.finished_at is None:
            break
        long_run = attempt.finished_at - attempt.started_at > RESET_AFTER
        if position == 0 or long_run or attempt.earlier:
            delay = 0.0
        else:
            delay = min(MAX_BACKOFF, delay * 2 or INITIAL_BACKOFF)
    return delay


def restart_at(attempts: Sequence[Attempt]) -> float:
    """Return the instant from which the next attempt may start."""
    newest = attempts[-1]
    assert newest.finished_at is not None
    return newest.finished_at + backoff_seconds(attempts)
