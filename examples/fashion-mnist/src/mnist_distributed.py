"""Train on Fashion-MNIST under torchrun: every process is one rank of an elastic group.

    torchrun --nnodes 2 --nproc_per_node 1 --rdzv_backend c10d --rdzv_endpoint HOST:PORT mnist_distributed.py \
        --checkpoint_path /tmp/checkpoints/mnist.pt --log_path /tmp/logs --data_path /data/fashion_mnist_arrow
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fashion_mnist.training import Settings, leave, run


def main() -> None:
    parser = argparse.ArgumentParser(description="Elastic PyTorch Fashion-MNIST example")
    parser.add_argument(
        "--checkpoint_path", type=Path, required=True, help="checkpoint to resume from and to write"
    )
    parser.add_argument("--log_path", type=Path, required=True, help="where TensorBoard logs go")
    parser.add_argument(
        "--data_path", type=Path, required=True, help="Hugging Face Arrow folder or IDX files"
    )
    parser.add_argument("--epochs", type=int, default=1, help="epochs to train from here (default: 1)")
    parser.add_argument("--batch_size", type=int, default=64, help="images per step and rank (default: 64)")
    parser.add_argument("--lr", type=float, default=0.02, help="learning rate (default: 0.02)")
    parser.add_argument("--backend", default="gloo", choices=["gloo", "nccl"], help="default: gloo")
    args = parser.parse_args()
    run(
        Settings(
            data=args.data_path,
            checkpoint=args.checkpoint_path,
            logs=args.log_path,
            epochs=args.epochs,
            batch_size=args.batch_size,
            learning_rate=args.lr,
            backend=args.backend,
            use_cuda=args.backend == "nccl",
        )
    )


if __name__ == "__main__":
    main()
    leave()
