"""Entries of archives whose extended headers are bounded: `tarfile` reads them whole."""

from __future__ import annotations

import tarfile

MAX_HEADER = 1 << 20
_EXTENSIONS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


class BoundedMember(tarfile.TarInfo):
    """For the `tarinfo` of an archive. Raises tarfile.ReadError for a header that is too large."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.size < 0 or (self.type in _EXTENSIONS and self.size > MAX_HEADER):
            raise tarfile.ReadError(f"the archive has a header of {self.size} bytes")
        result: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return result
