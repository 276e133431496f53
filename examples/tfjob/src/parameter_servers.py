"""Train with parameter servers: the chief hands out steps, workers compute them, servers hold the variables.

The same program runs in every pod of the TFJob; `TF_CONFIG`, from the operator, says which part to play. The evaluator
takes no part in the cluster: it looks at the checkpoints that the chief writes to the directory that both mount.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault(
    "TF_USE_LEGACY_KERAS", "1"
)  # no Keras here: TensorFlow starts in half the time without it

import tensorflow as tf
from digits import make_digits

LAST = "ckpt-3"


def make_variables() -> tuple[tf.Variable, tf.Variable]:
    """Return weights and biases of a linear classifier; under a strategy they live on the servers."""
    return tf.Variable(tf.zeros([64, 10]), name="weights"), tf.Variable(tf.zeros([10]), name="biases")


def lead(resolver: tf.distribute.cluster_resolver.ClusterResolver, folder: Path, steps: int) -> None:
    """Train as the chief: schedule steps on whichever worker is free, and write checkpoints."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights, biases = make_variables()
    print(f"weights on {weights.device}", flush=True)
    images, labels = (tf.constant(part) for part in make_digits(2000))

    @tf.function
    def step() -> tf.Tensor:
        chosen = tf.random.uniform([64], maxval=len(labels), dtype=tf.int32)
        with tf.GradientTape() as tape:
            logits = tf.gather(images, chosen) @ weights + biases
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.gather(labels, chosen), logits)
            loss = tf.reduce_mean(losses)
        for variable, gradient in zip((weights, biases), tape.gradient(loss, (weights, biases)), strict=True):
            variable.assign_sub(0.1 * gradient)
        return loss

    checkpoint = tf.train.Checkpoint(weights=weights, biases=biases)
    for _ in range(3):
        loss = None
        for _ in range(steps // 3):
            loss = coordinator.schedule(step)
        coordinator.join()
        print(f"loss={coordinator.fetch(loss):.3f}", flush=True)
        checkpoint.save(str(folder / "ckpt"))
    until = time.monotonic() + 60
    while not (folder / "evaluated").exists():
        # The end of the chief is the end of the job: the evaluator shall have seen the last checkpoint.
        assert time.monotonic() < until, "the evaluator has not looked at the last checkpoint"
        time.sleep(0.2)
    time.sleep(3)  # and have ended: with the job goes whatever runs still


def evaluate(folder: Path) -> None:
    """Print the accuracy of each checkpoint on pictures of its own, until the last."""
    images, labels = make_digits(500, seed=1)
    for path in tf.train.checkpoints_iterator(str(folder), timeout=60):
        weights, biases = make_variables()
        tf.train.Checkpoint(weights=weights, biases=biases).restore(path).expect_partial()
        right = tf.equal(tf.argmax(images @ weights + biases, axis=1), labels)
        name = Path(path).name
        print(f"{name} accuracy={tf.reduce_mean(tf.cast(right, tf.float32)):.3f}", flush=True)
        if name == LAST:
            (folder / "evaluated").touch()
            sys.stdout.flush()
            os._exit(0)  # at once: TensorFlow takes seconds to end


def main() -> None:
    parser = argparse.ArgumentParser(description="ParameterServerStrategy")
    parser.add_argument(
        "--steps", type=int, default=150, help="steps, of all workers together (default: 150)"
    )
    parser.add_argument(
        "--checkpoints", type=Path, required=True, help="directory that chief and evaluator share"
    )
    args = parser.parse_args()
    told = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    print(f"{told.task_type} {told.task_id}", flush=True)
    # The operator lists the evaluator, too; a chief that counts it in waits for a server that it does not run.
    cluster = {type_: hosts for type_, hosts in told.cluster_spec().as_dict().items() if type_ != "evaluator"}
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), task_type=told.task_type, task_id=told.task_id, rpc_layer="grpc"
    )
    if resolver.task_type in ("worker", "ps"):
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
        )
        server.join()
    elif resolver.task_type == "evaluator":
        evaluate(args.checkpoints)
    else:
        lead(resolver, args.checkpoints, args.steps)


if __name__ == "__main__":
    main()
