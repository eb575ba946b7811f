"""Our packages as an archive, for the workers of a Spark cluster."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

ARCHIVE = "sqlstream_code"
"""The directory among a job's files into which Spark unpacks the archive. Kernels are loaded from files, not from an archive."""

_PACKAGES = ("sqlstream", "runtime")
_SUFFIXES = (".py", ".kernels")


def add_our_code(context: SparkContext, directory: str) -> None:
    """Ship our packages to every worker: they run the code of this process, whatever version is installed there."""
    path = os.path.join(directory, f"{ARCHIVE}.zip")
    write_code_archive(path)
    context.addArchive(f"{path}#{ARCHIVE}")


def write_code_archive(path: str) -> None:
    """What readers and writers of tables import, with compiled kernels. Dependencies must be installed where the workers run."""
    root = Path(__file__).resolve().parents[3]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for package in _PACKAGES:
            for file in sorted((root / package).rglob("*")):
                if file.suffix in _SUFFIXES:
                    archive.write(file, file.relative_to(root))
