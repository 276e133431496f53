"""Write the stand-in for Fashion-MNIST, as IDX files and as a Hugging Face Arrow dataset.

python3 make_data.py DIRECTORY          # DIRECTORY/idx and DIRECTORY/fashion_mnist_arrow
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fashion_mnist import arrow, data, standin


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, help="where the data goes")
    parser.add_argument("--train", type=int, default=60_000, help="training images (default: 60000)")
    parser.add_argument("--test", type=int, default=10_000, help="test images (default: 10000)")
    args = parser.parse_args()
    counts = {"train": args.train, "test": args.test}
    data.write_standin(args.directory / "idx", counts)
    splits = {split: standin.make(split, count) for split, count in counts.items()}
    arrow.write(args.directory / "fashion_mnist_arrow", splits)
    print(f"Wrote {args.train} + {args.test} images (stand-in, synthetic) to {args.directory}")


if __name__ == "__main__":
    main()
