"""What NVIDIA's management library (NVML, part of the driver) says of the GPUs of this machine.

Source of names and numbers: nvml.h of CUDA 12. The library is loaded for the question and let go of again.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Mapping

import msgspec

log = logging.getLogger(__name__)

LIBRARY = "libnvidia-ml.so.1"
_TEXT = 96
"""Bytes of names and uuids (NVML_DEVICE_NAME_V2_BUFFER_SIZE, NVML_DEVICE_UUID_V2_BUFFER_SIZE)."""


class Gpu(msgspec.Struct, frozen=True):
    """One GPU. `minor` is the number in `/dev/nvidia<n>`, which need not be CUDA's index."""

    minor: int
    uuid: str
    name: str = ""
    memory_bytes: int = 0


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class NvmlError(Exception):
    """The library refuses."""


def query(library: str = LIBRARY) -> Mapping[int, Gpu]:
    """Return the GPUs by minor number; none where there is no library, or the driver does not answer."""
    try:
        loaded = ctypes.CDLL(library)
        _ask(loaded.nvmlInit_v2)
    except (OSError, AttributeError, NvmlError) as error:
        log.info("GPUs are known by their device files alone", extra={"error": str(error)})
        return {}
    try:
        count = ctypes.c_uint()
        _ask(loaded.nvmlDeviceGetCount_v2, ctypes.byref(count))
        found = [_gpu(loaded, index) for index in range(count.value)]
    except (AttributeError, NvmlError) as error:
        log.warning("GPUs are known by their device files alone", extra={"error": str(error)})
        return {}
    finally:
        loaded.nvmlShutdown()
    return {gpu.minor: gpu for gpu in found if gpu is not None}


def _gpu(library: ctypes.CDLL, index: int) -> Gpu | None:
    """Return a GPU, None for one that has fallen off the bus or that this user may not see."""
    handle, minor, memory = ctypes.c_void_p(), ctypes.c_uint(), _Memory()
    try:
        _ask(library.nvmlDeviceGetHandleByIndex_v2, ctypes.c_uint(index), ctypes.byref(handle))
        _ask(library.nvmlDeviceGetMinorNumber, handle, ctypes.byref(minor))
        uuid = _text(library.nvmlDeviceGetUUID, handle)
        name = _text(library.nvmlDeviceGetName, handle)
        _ask(library.nvmlDeviceGetMemoryInfo, handle, ctypes.byref(memory))
    except NvmlError as error:
        log.warning("a GPU does not answer", extra={"index": index, "error": str(error)})
        return None
    return Gpu(minor.value, uuid, name, memory.total)


def _text(function: Callable[..., int], handle: ctypes.c_void_p) -> str:
    buffer = ctypes.create_string_buffer(_TEXT)
    _ask(function, handle, buffer, ctypes.c_uint(_TEXT))
    return buffer.value.decode(errors="replace")


def _ask(function: Callable[..., int], *arguments: object) -> None:
    if number := function(*arguments):
        raise NvmlError(f"{getattr(function, '__name__', 'NVML')} answers {number}")
