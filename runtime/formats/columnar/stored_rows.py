"""The rows of files that bring their types: columns are found by name, and have the types of the table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import SqlStreamError, UserError
from sqlstream.runtime.formats.file_rows import FileRows, absent_column
from sqlstream.runtime.host.files import file_error
from sqlstream.spi.format import ReadRequest, Rejected

# What pyarrow raises for broken files is of many kinds, and none of them names the file.
_BROKEN = (pa.ArrowException, OSError, ValueError, ArithmeticError, LookupError, MemoryError, TypeError)


class StoredRows(FileRows):
    """A file of columns. Types that lose nothing are widened to the table's; a column that a file lacks is NULL there. `kind` is
    how messages name the format."""

    kind: ClassVar[str]

    def __init__(self, request: ReadRequest) -> None:
        from sqlstream.arrow import to_arrow_type

        super().__init__(request)
        self.targets = {c: to_arrow_type(t) for c, t in self._types.items()}
        self._declared = request.schema.names
        self.batch_rows = request.batch_rows

    @abstractmethod
    def stored(self) -> Iterator[pa.RecordBatch]:
        """The columns that the file has of those that are read, with its own types. It may raise what pyarrow does."""

    def decoded(self) -> Iterator[tuple[pa.RecordBatch, list[Rejected]]]:
        stored = self.stored()
        while True:
            try:
                batch = next(stored, None)
            except _BROKEN as error:
                raise self._unreadable(error) from error
            if batch is None:
                return
            yield self._cast(batch), []

    def _unreadable(self, error: Exception) -> SqlStreamError:
        if isinstance(error, OSError) and error.errno is not None:
            return file_error("read", self._path, error)
        reason = str(error).strip().split("\n", 1)[0].rstrip(". ") or type(error).__name__
        return UserError(
            "SS5011",
            f'could not read "{self._path}" as {self.kind}: {reason}',
            hint=f"check that the file is a whole {self.kind} file",
        )

    def check_columns(self, schema: pa.Schema) -> None:
        from sqlstream.runtime.formats.columnar.stored_types import may_be_declared

        names = schema.names
        for wanted in self.targets:
            if wanted not in names:
                self._check_came_later(wanted, names)
                continue
            if names.count(wanted) > 1:
                raise UserError(
                    "SS5012",
                    f'the {self.kind} file "{self._path}" has several columns "{wanted}"',
                    hint="write the file with other names, or leave the column out of the table",
                )
            stored, t = schema.field(wanted).type, self._types[wanted]
            if not may_be_declared(stored, t):
                raise self._misfit(wanted, stored)

    def _check_came_later(self, wanted: str, names: list[str]) -> None:
        """A column that a file lacks came to the table later, and is NULL. UserError SS5012 where that cannot be: the column is
        NOT NULL, its name is written otherwise there, or the file has no column of the table at all."""
        is_other_case = wanted.lower() in (name.lower() for name in names)
        if not self._types[wanted].nullable or is_other_case or not set(names) & set(self._declared):
            raise absent_column(f'the {self.kind} file "{self._path}"', wanted, names)

    def _cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self.targets:
            return batch
        present = batch.schema.names
        columns = [
            self._cast_column(batch.column(name), name, t) if name in present else pa.nulls(batch.num_rows, t)
            for name, t in self.targets.items()
        ]
        return pa.RecordBatch.from_arrays(columns, names=list(self.targets))

    def _cast_column(self, column: pa.Array, name: str, target: pa.DataType) -> pa.Array:
        if column.type == target:
            return self._held(column, name)
        from sqlstream.runtime.evaluate.time.time_parts import in_unit

        try:
            if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(target):
                # A finer timestamp is cut to the table's precision, as everywhere.
                column = in_unit(self._held(column, name, target.unit), target.unit)
            return self._held(pc.cast(column, target), name)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise self._misfit(name, column.type, str(error).split("\n", 1)[0].rstrip(".")) from error

    def _misfit(self, name: str, stored: pa.DataType, reason: str = "") -> UserError:
        """`reason` is Arrow's, where the types fit and a value does not."""
        from sqlstream.runtime.formats.columnar.stored_types import sql_name

        declared = self._types[name].without_time_attribute().with_nullable(True)
        which = ", and a value does not fit" if reason else ""
        return UserError(
            "SS5012",
            f'column "{name}" of file "{self._path}" is {sql_name(stored)}, the table declares {declared}{which}',
            detail=reason,
            hint="declare the column with the type that it has in the file",
        )

    def _held(self, column: pa.Array, name: str, unit: str = "") -> pa.Array:
        """The column, whose dates and timestamps lie in the range of their type (and of `unit`)."""
        if not pa.types.is_timestamp(column.type) and not pa.types.is_date32(column.type):
            return column
        from sqlstream.runtime.evaluate.time.time_range import are_within_range, out_of_range

        if not are_within_range(column, unit):
            beyond = out_of_range(pa.timestamp(unit, column.type.tz) if unit else column.type)
            raise UserError(
                "SS5012",
                f'column "{name}" of "{self._path}" has a value beyond its type: {beyond.message}',
                hint=beyond.hint,
            )
        return column
