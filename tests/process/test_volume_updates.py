"""A volume's files change together, as seen by a reader beside the writer."""

from __future__ import annotations

import os
import threading

from trainshed.cluster.node.volumes import atomic
from trainshed.cluster.node.volumes.files import File


def test_a_reader_never_sees_half_an_update(tmp_path):
    """Two files that always carry the same number, read while they change 300 times."""
    volume = tmp_path / "v"
    atomic.write(volume, {"x": File(b"0"), "y": File(b"0")})
    stop, torn = threading.Event(), []

    def look():
        while not stop.is_set():
            if not (volume / "..data").is_symlink():
                torn.append("no ..data")
            try:
                descriptor = os.open(volume / "..data", os.O_RDONLY)
            except FileNotFoundError:
                continue  # the generation that the link named was replaced in between: look again
            try:
                values = set()
                for name in ("x", "y"):
                    fd = os.open(name, os.O_RDONLY, dir_fd=descriptor)
                    values.add(os.read(fd, 20))
                    os.close(fd)
                if len(values) != 1:
                    torn.append(values)
            except FileNotFoundError:
                pass  # this generation was removed meanwhile: look again
            finally:
                os.close(descriptor)

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(300):
        data = str(number).encode()
        atomic.write(volume, {"x": File(data), "y": File(data)})
    stop.set()
    reader.join()
    assert torn == []
