"""Train a small network under MultiWorkerMirroredStrategy: chief and workers each hold the whole model.

`TF_CONFIG`, from the operator, says who is where; the strategy reads it by itself. The loop is written out, because
`fit` of Keras 3 does not know this strategy.
"""

from __future__ import annotations

import argparse
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault(
    "TF_USE_LEGACY_KERAS", "1"
)  # no Keras here: TensorFlow starts in half the time without it

import tensorflow as tf
from digits import make_digits

BATCH = 32
"""Pictures per step and replica."""


class Network(tf.Module):
    """Two dense layers, from 64 pixels to ten digits."""

    def __init__(self) -> None:
        super().__init__()
        first, second = (
            tf.random.stateless_normal([64, 32], (1, 1)),
            tf.random.stateless_normal([32, 10], (1, 2)),
        )
        self.first, self.second = tf.Variable(first * 0.1), tf.Variable(second * 0.1)

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(images @ self.first) @ self.second


def main() -> None:
    parser = argparse.ArgumentParser(description="MultiWorkerMirroredStrategy")
    parser.add_argument("--epochs", type=int, default=3, help="epochs (default: 3)")
    epochs = parser.parse_args().epochs
    task = json.loads(os.environ["TF_CONFIG"])["task"]

    # First of all: the strategy starts the server that the others wait for.
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    replicas = strategy.num_replicas_in_sync
    print(f"{task['type']} {task['index']}: one of {replicas} replicas", flush=True)
    with strategy.scope():
        network = Network()

    def batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        """Return the rows of this pod: every one of as many as there are pods."""
        rows = tf.data.Dataset.from_tensor_slices(make_digits(3072))
        return rows.shard(context.num_input_pipelines, context.input_pipeline_id).batch(BATCH)

    data = strategy.distribute_datasets_from_function(batches)

    def step(images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            logits = network(images)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses) / replicas
        gradients = tape.gradient(loss, network.trainable_variables)
        # All replicas subtract the same: the sum of what each of them found.
        total = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        for variable, gradient in zip(network.trainable_variables, total, strict=True):
            variable.assign_sub(0.2 * gradient)
        right = tf.reduce_mean(tf.cast(tf.argmax(logits, axis=1) == labels, tf.float32))
        return loss, right / replicas

    @tf.function
    def epoch() -> tuple[tf.Tensor, tf.Tensor]:
        loss = right = 0.0
        for images, labels in data:
            done = strategy.run(step, (images, labels))
            loss, right = (strategy.reduce(tf.distribute.ReduceOp.SUM, part, axis=None) for part in done)
        return loss, right

    for number in range(1, epochs + 1):
        loss, right = epoch()
        print(f"epoch {number} loss={loss:.4f} accuracy={right:.3f}", flush=True)
    weights = sum(float(tf.reduce_sum(tf.abs(v))) for v in network.trainable_variables)
    print(f"sum of weights {weights:.3f}", flush=True)


if __name__ == "__main__":
    main()
