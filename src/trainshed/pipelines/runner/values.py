"""How an object becomes a file and comes back, by its type. The first backend that takes the object's type is used.

A backend never imports a library to find out: an object of a library's type cannot be there unless it is imported.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar

from trainshed.pipelines.runner import pickling


class Backend(ABC):
    """One way to write objects."""

    name: ClassVar[str]
    suffix: ClassVar[str]

    @abstractmethod
    def takes(self, value: object) -> bool:
        """Return whether the object comes back from this backend as it was."""

    @abstractmethod
    def save(self, value: Any, file: Path) -> None:
        """Write the object."""

    @abstractmethod
    def load(self, file: Path) -> object:
        """Read it."""


def _type(module: str, name: str) -> type | None:
    """Return a library's type if the library is imported."""
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) else None


def _is(value: object, module: str, name: str) -> bool:
    kind = _type(module, name)
    return kind is not None and isinstance(value, kind)


class Json(Backend):
    """Numbers, texts and truth values."""

    name, suffix = "json", ".json"

    def takes(self, value: object) -> bool:
        return (
            value is None or type(value) in (bool, float, str) or (type(value) is int and abs(value) < 2**63)
        )

    def save(self, value: Any, file: Path) -> None:
        file.write_text(json.dumps(value))

    def load(self, file: Path) -> object:
        return json.loads(file.read_text())


class Numpy(Backend):
    """Arrays of plain numbers and texts; scalars, masked arrays and arrays of objects go as pickles."""

    name, suffix = "numpy", ".npy"

    def takes(self, value: object) -> bool:
        return type(value) is _type("numpy", "ndarray") and not value.dtype.hasobject  # type: ignore[attr-defined]

    def save(self, value: Any, file: Path) -> None:
        import numpy as np

        with file.open("wb") as opened:
            np.lib.format.write_array(opened, value, allow_pickle=False)

    def load(self, file: Path) -> object:
        import numpy as np

        return np.load(file, allow_pickle=False)


class Pandas(Backend):
    """Frames of numbers, truth values and times with plain column names; all others go as pickles."""

    name, suffix = "parquet", ".parquet"

    def takes(self, value: object) -> bool:
        if type(value) is not _type("pandas", "DataFrame") or not _importable("pyarrow"):
            return False
        frame: Any = value
        plain = (
            type(frame.index) is _type("pandas", "RangeIndex")
            and frame.index.name is None
            and not frame.attrs
        )
        names = list(frame.columns)
        named = (
            all(type(n) is str for n in names)
            and len(set(names)) == len(names)
            and frame.columns.name is None
        )
        return bool(plain and named and names) and all(
            getattr(d, "kind", "O") in "biuf" for d in frame.dtypes
        )

    def save(self, value: Any, file: Path) -> None:
        value.to_parquet(file)

    def load(self, file: Path) -> object:
        import pandas as pd

        return pd.read_parquet(file)


class Arrow(Backend):
    """Arrow tables."""

    name, suffix = "arrow", ".arrow"

    def takes(self, value: object) -> bool:
        return _is(value, "pyarrow", "Table")

    def save(self, value: Any, file: Path) -> None:
        import pyarrow as pa

        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, value.schema) as writer:
            writer.write_table(value)

    def load(self, file: Path) -> object:
        import pyarrow as pa

        with pa.OSFile(str(file), "rb") as source:
            return pa.ipc.open_file(source).read_all()


class Torch(Backend):
    """Tensors, alone or in the dictionaries that `state_dict` returns; read with `weights_only`."""

    name, suffix = "torch", ".pt"

    def takes(self, value: object) -> bool:
        tensor = _type("torch", "Tensor")
        if tensor is None:
            return False
        if isinstance(value, dict) and value and type(value).__name__ in ("dict", "OrderedDict"):
            return all(type(k) is str and type(v) is tensor for k, v in value.items())
        return type(value) is tensor

    def save(self, value: Any, file: Path) -> None:
        import torch

        torch.save(value, file)

    def load(self, file: Path) -> object:
        import torch

        return torch.load(file, weights_only=True, map_location=None if torch.cuda.is_available() else "cpu")


class Keras(Backend):
    """Keras models."""

    name, suffix = "keras", ".keras"

    def takes(self, value: object) -> bool:
        return _is(value, "keras", "Model") or _is(value, "tensorflow.keras", "Model")

    def save(self, value: Any, file: Path) -> None:
        value.save(file)

    def load(self, file: Path) -> object:
        import keras

        return keras.models.load_model(file)


class XGBoost(Backend):
    """Boosters."""

    name, suffix = "xgboost", ".ubj"

    def takes(self, value: object) -> bool:
        return type(value) is _type("xgboost", "Booster")

    def save(self, value: Any, file: Path) -> None:
        value.save_model(file)

    def load(self, file: Path) -> object:
        import xgboost

        booster = xgboost.Booster()
        booster.load_model(file)
        return booster


class XGBoostData(Backend):
    """Matrices that boosters train on, which no pickle takes."""

    name, suffix = "dmatrix", ".buffer"

    def takes(self, value: object) -> bool:
        return type(value) is _type("xgboost", "DMatrix")

    def save(self, value: Any, file: Path) -> None:
        value.save_binary(file)

    def load(self, file: Path) -> object:
        import xgboost

        return xgboost.DMatrix(str(file))


class Pickle(Backend):
    """Everything else: functions, classes, estimators, containers."""

    name, suffix = "pickle", ".pickle"

    def __init__(self, names: dict[str, Any], everywhere: Collection[str]) -> None:
        self._names, self._everywhere = names, everywhere

    def takes(self, value: object) -> bool:
        return True

    def save(self, value: Any, file: Path) -> None:
        file.write_bytes(pickling.dumps(value, self._names, self._everywhere))

    def load(self, file: Path) -> object:
        return pickling.loads(file.read_bytes(), self._names)


def backends(names: dict[str, Any], everywhere: Collection[str] = ()) -> list[Backend]:
    """Return the backends in the order in which they are asked."""
    own = (Json(), Numpy(), Pandas(), Arrow(), Torch(), Keras(), XGBoost(), XGBoostData())
    return [*own, Pickle(names, everywhere)]


def _importable(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None
