"""The tables of a plan that Spark reads by itself."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlstream.batch_plan import BatchPlan, BatchTable
from sqlstream.errors import InternalError, SqlStreamError
from sqlstream.runtime.batch.engine import BatchRun
from sqlstream.runtime.batch.spark.arrow_types import NO_COLUMN
from sqlstream.runtime.batch.spark.errors import described, first_line
from sqlstream.runtime.batch.tables import (
    Share,
    batch_relation,
    connector_context,
    described_relation,
    read_table,
)
from sqlstream.spark_types import quote, spark_type
from sqlstream.spi.batch_relation import BatchRelation, SparkFiles, SparkRelation, ThroughReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OF_FILES = ("FAILED_READ_FILE", "INVALID_UTF8_STRING", "arquet")
"""What Spark's failures say when files are the cause."""

_MEANINGS = ("spark.sql.parquet.", "spark.sql.files.", "spark.hadoop.")
"""Settings of a user that can change what Spark reads from a file."""


class NativeTables:
    """State: how each table is read, as far as it was asked for."""

    def __init__(
        self, session: SparkSession, plan: BatchPlan, files: Any, is_cancelled: Callable[[], bool]
    ) -> None:
        self._session = session
        self._plan = plan
        self._files = files
        self._is_cancelled = is_cancelled
        self._native: dict[str, SparkRelation] = {}
        self.lines: list[str] = []
        """How each table is read, for EXPLAIN."""

    def frame(self, table: BatchTable) -> DataFrame | None:
        """The rows of the table; None when our reader is to read it. BatchCancelled."""
        relation = self._relation(table)
        frame = None
        if isinstance(relation, SparkRelation):
            try:
                frame = self._frame(table, relation)
                self._native[table.name] = relation
            except Exception as error:  # of any kind: the reader says what is wrong
                relation = ThroughReader(first_line(described(error)))
        self.lines.append(described_relation(table, relation))
        return frame

    def finish(self, run: BatchRun) -> None:
        """All rows have been read. ExternalError when a file is not the one that was looked at."""
        for name, relation in self._native.items():
            try:
                relation.require_unchanged()
            except SqlStreamError:
                run.blame(name)
                raise
            run.count(name, "numRecordsOut", relation.row_count)
            run.count(name, "numBytesIn", relation.byte_count)

    def cause(
        self, failure: SqlStreamError, run: BatchRun, is_cancelled: Callable[[], bool]
    ) -> SqlStreamError:
        """What our reader raises for a table that Spark has failed to read by itself; else the failure itself."""
        if not any(words in failure.message for words in _OF_FILES):
            return failure
        for table in self._plan.tables:
            if table.name in self._native:
                try:
                    self._read(table, run, is_cancelled)
                except SqlStreamError as error:
                    run.blame(table.name)
                    return error
        return failure

    def _read(self, table: BatchTable, run: BatchRun, is_cancelled: Callable[[], bool]) -> None:
        share = Share(self._plan.job_id, f"{run.attempt}-{table.name}-again", 0, 1, self._plan.config)
        context = connector_context(share, self._files, lambda metric, n: None, run.print_lines)
        for _ in read_table(table, context, is_cancelled):
            pass

    def _relation(self, table: BatchTable) -> BatchRelation:
        given = next((key for key in sorted(self._plan.config) if key.startswith(_MEANINGS)), None)
        if given is not None:
            return ThroughReader(f"'{given}' is set")
        return batch_relation(table, "spark", self._plan.config, self._files, self._is_cancelled)

    def _frame(self, table: BatchTable, relation: SparkRelation) -> DataFrame:
        names = [name for name, _ in _columns(table)]
        scans = (self._scan(scan, relation, names) for scan in relation.scans)
        frame = functools.reduce(lambda whole, part: whole.unionAll(part), scans)
        found, wanted = [t for _, t in frame.dtypes], [t for _, t in _columns(table)]
        if found != wanted:
            raise InternalError(f"Spark has types {', '.join(found)} for its columns")
        return frame

    def _scan(self, scan: SparkFiles, relation: SparkRelation, names: list[str]) -> DataFrame:
        reader = self._session.read.format(relation.format).options(**relation.options).schema(scan.ddl)
        # Spark counts no rows without columns.
        expressions = scan.expressions or ("CAST(NULL AS BOOLEAN)",)
        columns = (f"{e} AS {quote(name)}" for e, name in zip(expressions, names, strict=True))
        return reader.load([f"file:{path}" for path in scan.paths]).selectExpr(*columns)


def _columns(table: BatchTable) -> list[tuple[str, str]]:
    """The columns of the view with Spark's names of their types."""
    columns = [(f.name, spark_type(f.type).lower()) for f in table.schema.fields]
    return columns or [(NO_COLUMN, "boolean")]
