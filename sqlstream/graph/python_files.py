"""The Python modules that go with a job."""

from __future__ import annotations

import msgspec


class PythonFiles(msgspec.Struct, frozen=True):
    """A zip archive of modules and packages, whose names in it are those by which they are imported. `digest` is its SHA-256
    in hex: a TaskManager imports each archive once."""

    digest: str
    archive: bytes
