"""What a Spark Connect server ships to its workers by value: it finds our packages there, and calls them.

Workers have our packages only as an artifact of the session, so this file imports none of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pyspark import SparkFiles

if TYPE_CHECKING:
    import pyarrow as pa


def make_task(
    name: str, arguments: str, archive: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` that runs a task of sqlstream.runtime.batch.spark.connect.tasks; `archive` is the directory of
    our package among the files of the session."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        find_our_code(archive)
        from sqlstream.runtime.batch.spark.connect.tasks import run_task_with_figures

        return run_task_with_figures(name, arguments, batches)

    return task


def make_function(arguments: str, archive: str) -> Callable[..., pa.Array]:
    """A function of columns that runs a hosted function of sqlstream.runtime.batch.spark.hosted_functions."""

    def function(*columns):  # type: ignore[no-untyped-def]  # PySpark reads a meaning into annotations
        find_our_code(archive)
        from sqlstream.runtime.batch.spark.hosted_functions import run_hosted

        return run_hosted(arguments, columns)

    return function


def find_our_code(archive: str) -> None:
    place = os.path.join(SparkFiles.getRootDirectory(), archive)
    if place not in sys.path:
        sys.path.insert(0, place)
