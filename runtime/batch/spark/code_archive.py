"""Our packages as an archive, for the workers of a Spark cluster."""

from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING

from sqlstream.runtime.host.process import import_root

if TYPE_CHECKING:
    from pyspark import SparkContext

ARCHIVE = "sqlstream_code"
"""The directory among a job's files into which Spark unpacks the archive. Kernels are loaded from files, not from an archive."""

_LEFT_OUT = frozenset(("planner", "client", "queries", "__pycache__"))
"""What plans statements and answers users: workers do neither."""
_SUFFIXES = (".py", ".kernels")


def add_our_code(context: SparkContext, directory: str) -> None:
    """Ship our packages to every worker: they run the code of this process, whatever version is installed there."""
    path = os.path.join(directory, f"{ARCHIVE}.zip")
    write_code_archive(path)
    context.addArchive(f"{path}#{ARCHIVE}")


def write_code_archive(path: str) -> None:
    """What readers and writers of tables import, with compiled kernels. Dependencies must be installed where the workers run."""
    root = import_root()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        # In a checkout, the parts of the package are links.
        for directory, parts, files in os.walk(os.path.join(root, "sqlstream"), followlinks=True):
            parts[:] = sorted(set(parts) - _LEFT_OUT)
            for file in sorted(files):
                if file.endswith(_SUFFIXES):
                    name = os.path.join(directory, file)
                    archive.write(name, os.path.relpath(name, root))
