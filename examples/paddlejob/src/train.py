"""Fit a line with PaddlePaddle on every worker of a PaddleJob: each has its own rows, gradients are averaged.

python3 -m paddle.distributed.launch train.py

The launcher takes PADDLE_MASTER, PADDLE_NNODES and PADDLE_JOB_ID from the operator, meets the others at worker 0, and
starts this program with its rank.
"""

from __future__ import annotations

import argparse

import numpy as np
import paddle
import paddle.distributed as dist

WANTED = np.array([[2.0], [-3.0], [0.5], [1.0]], np.float32)


def rows_of(rank: int, rows: int = 1024) -> tuple[paddle.Tensor, paddle.Tensor]:
    """Return the rows that this rank alone has: inputs, and what the wanted weights make of them."""
    inputs = np.random.default_rng(rank).normal(size=(rows, len(WANTED))).astype(np.float32)
    return paddle.to_tensor(inputs), paddle.to_tensor(inputs @ WANTED)


def main() -> None:
    parser = argparse.ArgumentParser(description="Collective training with PaddlePaddle")
    parser.add_argument("--steps", type=int, default=100, help="gradient steps (default: 100)")
    steps = parser.parse_args().steps
    dist.init_parallel_env()
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}", flush=True)
    inputs, targets = rows_of(dist.get_rank())
    model = paddle.nn.Linear(len(WANTED), 1, bias_attr=False)
    parallel = paddle.DataParallel(model)
    optimizer = paddle.optimizer.SGD(learning_rate=0.1, parameters=model.parameters())
    for step in range(steps):
        loss = paddle.nn.functional.mse_loss(parallel(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if step % 25 == 0:
            print(f"step {step} loss={float(loss):.4f}", flush=True)
    print("weights", *(f"{value:.3f}" for value in model.weight.numpy().flatten()), flush=True)


if __name__ == "__main__":
    main()
