"""Fashion-MNIST as a Hugging Face dataset on disk: what `datasets.load_from_disk` reads and `save_to_disk` writes.

Layout (Hugging Face `datasets` docs, "Save"): `<root>/<split>/data-00000-of-00001.arrow` in the Arrow IPC stream
format with columns `image` (struct of PNG bytes and path) and `label` (int64), beside `dataset_info.json` and
`state.json`; `<root>/dataset_dict.json` names the splits.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image

from fashion_mnist.idx import Images, Labels

NAMES = (
    "T - shirt / top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_FEATURES = {
    "image": {"_type": "Image"},
    "label": {"names": list(NAMES), "_type": "ClassLabel"},
}


def is_dataset(root: Path) -> bool:
    """Return whether the directory looks like a saved dataset (one split or several)."""
    return (root / "dataset_dict.json").is_file() or (root / "state.json").is_file()


def read(root: Path, split: str) -> tuple[Images, Labels]:
    """Return images and labels of a split.

    Raises:
        FileNotFoundError: no such split.
    """
    folder = root / split if (root / "dataset_dict.json").is_file() else root
    state = json.loads((folder / "state.json").read_text())
    images: list[np.ndarray] = []
    labels: list[int] = []
    for entry in state["_data_files"]:
        with pa.memory_map(str(folder / entry["filename"])) as source, pa.ipc.open_stream(source) as stream:
            table = stream.read_all()
        for cell in table.column("image"):
            images.append(np.asarray(Image.open(io.BytesIO(cell["bytes"].as_py())).convert("L")))
        labels.extend(table.column("label").to_pylist())
    return np.stack(images), np.asarray(labels, dtype=np.uint8)


def write(root: Path, splits: dict[str, tuple[Images, Labels]]) -> None:
    """Write the splits; `root` is created."""
    root.mkdir(parents=True, exist_ok=True)
    for split, (images, labels) in splits.items():
        folder = root / split
        folder.mkdir(exist_ok=True)
        name = "data-00000-of-00001.arrow"
        schema = pa.schema(
            [("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), ("label", pa.int64())],
            metadata={"huggingface": json.dumps({"info": {"features": _FEATURES}})},
        )
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, schema) as stream:
            for start in range(0, len(images), 1000):
                cells = [{"bytes": _png(image), "path": None} for image in images[start : start + 1000]]
                batch = [
                    pa.array(cells, schema.field("image").type),
                    pa.array(labels[start : start + 1000], pa.int64()),
                ]
                stream.write_batch(pa.record_batch(batch, schema=schema))
        (folder / "state.json").write_text(
            json.dumps(
                {
                    "_data_files": [{"filename": name}],
                    "_fingerprint": f"trainshed-standin-{split}",
                    "_format_columns": None,
                    "_format_kwargs": {},
                    "_format_type": None,
                    "_output_all_columns": False,
                    "_split": split,
                },
                indent=2,
            )
        )
        (folder / "dataset_info.json").write_text(json.dumps({"features": _FEATURES}, indent=2))
    (root / "dataset_dict.json").write_text(json.dumps({"splits": list(splits)}))


def _png(image: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(image).save(out, format="PNG", compress_level=1)
    return out.getvalue()
