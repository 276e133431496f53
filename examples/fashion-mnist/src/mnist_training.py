"""Train on Fashion-MNIST as one pod of a PyTorchJob: ranks come from the operator's environment.

python3 mnist_training.py --epochs=1
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fashion_mnist.training import Settings, leave, run


def main() -> None:
    parser = argparse.ArgumentParser(description="PyTorch Fashion-MNIST example")
    parser.add_argument("--batch-size", type=int, default=64, help="images per step and rank (default: 64)")
    parser.add_argument(
        "--test-batch-size", type=int, default=1000, help="images per test step (default: 1000)"
    )
    parser.add_argument("--epochs", type=int, default=1, help="epochs to train (default: 1)")
    parser.add_argument("--lr", type=float, default=0.02, help="learning rate (default: 0.02)")
    parser.add_argument("--momentum", type=float, default=0.9, help="SGD momentum (default: 0.9)")
    parser.add_argument("--no-cuda", action="store_true", help="train on the CPU although there is a GPU")
    parser.add_argument("--seed", type=int, default=1, help="random seed (default: 1)")
    parser.add_argument("--log-interval", type=int, default=10, help="steps between log lines (default: 10)")
    parser.add_argument(
        "--data", type=Path, default=Path("../data"), help="IDX files or Arrow dataset (default: ../data)"
    )
    parser.add_argument(
        "--models", type=Path, default=Path("/opt/mnist/models"), help="where mnist_cnn.pt goes"
    )
    parser.add_argument(
        "--dir", type=Path, default=Path("logs"), help="where TensorBoard logs go (default: logs)"
    )
    parser.add_argument("--backend", default="gloo", choices=["gloo", "nccl"], help="default: gloo")
    parser.add_argument(
        "--no-download", action="store_true", help="make the stand-in without trying to download"
    )
    args = parser.parse_args()
    run(
        Settings(
            data=args.data,
            checkpoint=args.models / "mnist_cnn.pt",
            logs=args.dir,
            epochs=args.epochs,
            batch_size=args.batch_size,
            test_batch_size=args.test_batch_size,
            learning_rate=args.lr,
            momentum=args.momentum,
            seed=args.seed,
            log_interval=args.log_interval,
            backend=args.backend,
            download=not args.no_download,
            use_cuda=not args.no_cuda,
        )
    )


if __name__ == "__main__":
    main()
    leave()
