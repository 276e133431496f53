"""Fit a line with JAX on every pod of a JAXJob: one program, one mesh of all devices, each process with its own rows.

COORDINATOR_ADDRESS, COORDINATOR_PORT, NUM_PROCESSES and PROCESS_ID come from the operator.
"""

from __future__ import annotations

import argparse
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

WANTED = np.array([2.0, -3.0, 0.5, 1.0], np.float32)


def rows_of(process: int, rows: int = 1024) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that this process alone has: inputs, and what the wanted weights make of them."""
    inputs = np.random.default_rng(process).normal(size=(rows, len(WANTED))).astype(np.float32)
    return inputs, inputs @ WANTED


def loss_of(weights: jax.Array, inputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the mean squared error over the rows of all processes: XLA puts the all-reduce in."""
    return jnp.mean(jnp.square(inputs @ weights - targets))


@jax.jit
def step(weights: jax.Array, inputs: jax.Array, targets: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the weights after one step down the gradient, and the loss before it."""
    loss, gradient = jax.value_and_grad(loss_of)(weights, inputs, targets)
    return weights - 0.1 * gradient, loss


def main() -> None:
    parser = argparse.ArgumentParser(description="Distributed JAX")
    parser.add_argument("--steps", type=int, default=100, help="gradient steps (default: 100)")
    steps = parser.parse_args().steps
    jax.distributed.initialize(
        coordinator_address=f"{os.environ['COORDINATOR_ADDRESS']}:{os.environ['COORDINATOR_PORT']}",
        num_processes=int(os.environ["NUM_PROCESSES"]),
        process_id=int(os.environ["PROCESS_ID"]),
    )
    process, devices = jax.process_index(), jax.devices()
    print(f"process {process} of {jax.process_count()}: {len(devices)} devices in the mesh", flush=True)

    mesh = Mesh(np.array(devices), ("data",))
    split = NamedSharding(mesh, PartitionSpec("data"))
    inputs, targets = (jax.make_array_from_process_local_data(split, part) for part in rows_of(process))

    weights = jax.device_put(jnp.zeros(len(WANTED)), NamedSharding(mesh, PartitionSpec()))
    for number in range(steps):
        weights, loss = step(weights, inputs, targets)
        if number % 25 == 0:
            print(f"step {number} loss={float(loss):.4f}", flush=True)
    print("weights", *(f"{value:.3f}" for value in np.asarray(weights)), flush=True)


if __name__ == "__main__":
    main()
