"""What Spark, or a Spark Connect server, ships to its workers by value: it finds our package there, and calls it.

Workers on other machines have it only as an archive, which comes with the job or is an artifact of the session, so this file
imports none of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark import AccumulatorParam, SparkFiles

if TYPE_CHECKING:
    import pyarrow as pa


class FiguresParam(AccumulatorParam):  # type: ignore[misc]  # PySpark is Any to the type checker
    """Figures of subtasks by key. One that runs twice, as it failed or its table is scanned twice, counts once."""

    def zero(self, value: dict[Any, Any]) -> dict[Any, Any]:
        return {}

    def addInPlace(self, value1: dict[Any, Any], value2: dict[Any, Any]) -> dict[Any, Any]:  # noqa: N802 (Spark's name)
        value1.update(value2)
        return value1


def make_task(
    name: str, arguments: str, figures: Any, archive: str | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` that runs a task of sqlstream.runtime.batch.spark.tasks; `archive` is the directory of our
    package among the files of a Spark job, None where workers inherit the import path."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        find_our_code(archive)
        from sqlstream.runtime.batch.spark.tasks import run_task

        return run_task(name, arguments, figures.add, batches)

    return task


def make_task_with_figures(
    name: str, arguments: str, archive: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """`make_task` for a session of Spark Connect, where figures travel as rows (sqlstream.runtime.batch.spark.connect.tasks)."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        find_our_code(archive)
        from sqlstream.runtime.batch.spark.connect.tasks import run_task_with_figures

        return run_task_with_figures(name, arguments, batches)

    return task


def make_function(arguments: str, archive: str | None) -> Callable[..., pa.Array]:
    """A function of columns that runs a hosted function of sqlstream.runtime.batch.spark.hosted_functions."""

    def function(*columns):  # type: ignore[no-untyped-def]  # PySpark reads a meaning into annotations
        find_our_code(archive)
        from sqlstream.runtime.batch.spark.hosted_functions import run_hosted

        return run_hosted(arguments, columns)

    return function


def find_our_code(archive: str | None) -> None:
    if archive is not None:
        place = os.path.join(SparkFiles.getRootDirectory(), archive)
        if place not in sys.path:
            sys.path.insert(0, place)
