"""Our packages as an archive, for the workers of a Spark cluster."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

_PACKAGES = ("sqlstream", "runtime")
_NAME = "sqlstream_code.zip"


def add_our_code(context: SparkContext, directory: str) -> None:
    """Ship our packages to every worker: they run the code of this process, whatever version is installed there."""
    path = os.path.join(directory, _NAME)
    write_code_archive(path)
    context.addPyFile(path)


def write_code_archive(path: str) -> None:
    """What readers and writers of tables import. Dependencies must be installed where the workers run."""
    root = Path(__file__).resolve().parents[3]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for package in _PACKAGES:
            for file in sorted((root / package).rglob("*.py")):
                archive.write(file, file.relative_to(root))
