"""What a format of another package must do: give back what it wrote, by columns, in batches of any size, from any row on."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import SqlStreamError
from sqlstream.runtime.formats import format_of
from sqlstream.spi.format import ReadRequest
from sqlstream.testing.check import (
    Check,
    Row,
    batch_of,
    columns_text,
    expect_refused,
    rows_of,
    same_rows,
    schema_of,
    table_text,
)

BATCH_ROWS = (1, 3, 65_536)


@dataclasses.dataclass(frozen=True)
class FormatCase:
    """A format, columns and rows of theirs, which should have NULLs and extremes of each type.

    `options` are those of the format, without its prefix. `refused_columns` are types that it cannot carry. `broken` are
    contents of files, each with the numbers of the lines that cannot be decoded and the rows of the others.
    """

    format: str
    columns: Mapping[str, str]
    rows: tuple[Row, ...]
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    refused_columns: tuple[str, ...] = ()
    broken: tuple[tuple[bytes, tuple[int, ...], tuple[Row, ...]], ...] = ()

    def checks(self) -> list[Check]:
        parts = {
            "round trip": self._round_trip,
            "columns": self._columns,
            "restore": self._restore,
            "types": self._types,
            "options": self._options,
            "errors": self._errors,
            "tables": self._tables,
        }
        return [Check(f"{self.format}: {name}", run) for name, run in parts.items()]

    def _write(self, rows_at_once: int) -> bytes:
        stream = io.BytesIO()
        writer = format_of(self.format).writer(stream, schema_of(self.columns), dict(self.options))
        batch = batch_of(self.columns, self.rows)
        for start in range(0, batch.num_rows, rows_at_once):
            writer.write(batch.slice(start, rows_at_once))
        writer.close()
        return stream.getvalue()

    def _read(self, content: bytes, **request: Any) -> tuple[list[Row], list[int]]:
        """The rows, and the lines of those that are rejected."""
        columns = request.pop("columns", tuple(self.columns))
        reader = format_of(self.format).reader(
            ReadRequest(
                stream=io.BytesIO(content),
                path="checked",
                schema=schema_of(self.columns),
                columns=columns,
                options=dict(self.options),
                **request,
            )
        )
        schema = to_arrow_schema(schema_of(self.columns))
        rows: list[Row] = []
        lines: list[int] = []
        for batch, rejected in reader.batches():
            assert batch.schema.names == list(columns), f"columns {batch.schema.names} instead of {columns}"
            for name in columns:
                assert batch.schema.field(name).type == schema.field(name).type, f"the type of column {name}"
            values = [column.to_pylist() for column in batch.columns]
            rows += list(zip(*values, strict=True)) if values else [()] * batch.num_rows
            lines += [row.line for row in rejected]
        reader.close()
        return rows, lines

    def _round_trip(self, directory: Path) -> None:
        for rows_at_once in BATCH_ROWS:
            content = self._write(rows_at_once)
            for batch_rows in BATCH_ROWS:
                rows, lines = self._read(content, batch_rows=batch_rows)
                assert rows == list(self.rows), (
                    f"written {rows_at_once}, read {batch_rows} at once: {rows[:3]} …"
                )
                assert not lines

    def _columns(self, directory: Path) -> None:
        content = self._write(65_536)
        for place, name in enumerate(self.columns):
            assert self._read(content, columns=(name,))[0] == [(row[place],) for row in self.rows], name
        assert len(self._read(content, columns=())[0]) == len(self.rows), "rows without columns"
        backwards = tuple(reversed(tuple(self.columns)))
        assert self._read(content, columns=backwards)[0] == [row[::-1] for row in self.rows], backwards

    def _restore(self, directory: Path) -> None:
        content = self._write(65_536)
        for skipped in range(len(self.rows) + 1):
            for batch_rows in BATCH_ROWS:
                rows, _ = self._read(content, skip_rows=skipped, batch_rows=batch_rows)
                assert rows == list(self.rows[skipped:]), f"{skipped} rows are passed over"

    def _types(self, directory: Path) -> None:
        for text in self.refused_columns:
            expect_refused(self._table(directory, f"`refused` {text}"), "SS4006", f"a column of type {text}")

    def _options(self, directory: Path) -> None:
        wrong = self._table(directory, columns_text(self.columns), {f"{self.format}.no-such-option": "1"})
        expect_refused(wrong, "SS4003", "an option that is not there")

    def _errors(self, directory: Path) -> None:
        for content, wrong_lines, rows in self.broken:
            found, lines = self._read(content)
            assert lines == list(wrong_lines), f"lines {lines} are rejected of {content!r}"
            assert found == list(rows), f"{found} is read of {content!r}"
        if not format_of(self.format).descriptor.is_text:
            try:
                self._read(b"\x00no file of this format")
            except SqlStreamError:
                return
            raise AssertionError("a file of another kind is read")

    def _tables(self, directory: Path) -> None:
        (directory / "table").mkdir()
        (directory / "table" / "one").write_bytes(self._write(65_536))
        statements = [self._table(directory, columns_text(self.columns))]
        for config in ({"parallelism.default": "2", "execution.batch-rows": "1"}, {}):
            found = rows_of([*statements, "SELECT * FROM t"], config)
            count = rows_of([*statements, "SELECT COUNT(*) FROM t"], config)
            same_rows([tuple(map(repr, row)) for row in found], self._shown(), f"SELECT with {config}")
            assert count == [(len(self.rows),)], "COUNT(*)"

    def _shown(self) -> list[Row]:
        return [tuple(map(repr, row)) for row in self.rows]

    def _table(self, directory: Path, columns: str, more: Mapping[str, str] | None = None) -> str:
        options = {
            "connector": "filesystem",
            "path": str(directory / "table"),
            "format": self.format,
            **{f"{self.format}.{key}": value for key, value in self.options.items()},
            **(more or {}),
        }
        return table_text("t", columns, options)
