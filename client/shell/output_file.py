"""The rows of a query written to a file, which appears under its name when it is complete."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

import pyarrow as pa

from sqlstream.errors import ExternalError, UserError

if TYPE_CHECKING:
    from sqlstream.schema import Schema

SUFFIXES = (".csv", ".json", ".jsonl", ".parquet")


class _Writer(Protocol):
    def write(self, batch: pa.RecordBatch) -> None: ...

    def finish(self) -> None: ...


def checked_path(text: str) -> Path:
    """The path of a file to write. UserError SS4050 when its suffix names no format, or its directory does not exist;
    ExternalError SS5001 when the directory may not be read."""
    path = Path(text).expanduser()
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(
            "SS4050", f'the name "{text}" says no format', hint=f"end it with one of {', '.join(SUFFIXES)}"
        )
    with _telling(path):
        is_writable = path.parent.is_dir() and not path.is_dir()
    if not is_writable:
        raise UserError(
            "SS4050", f'"{text}" cannot be written', hint="give a file in a directory that exists"
        )
    return path


class OutputFile:
    """Writes batches to a hidden file beside `path`; `finish` renames it to `path`, and `abort` removes it.

    `with_op` writes the changelog, with a first column `op`. The file's mode is 0600 until `finish` gives it that of other new
    files. ExternalError SS5001 when the disk fails.
    """

    def __init__(self, path: Path, schema: Schema, *, with_op: bool, time_zone: str) -> None:
        self._path = path
        self.rows = 0
        with _telling(path):
            number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        self._temporary = Path(name)
        try:
            with _telling(path):
                self._file = os.fdopen(number, "wb")
                self._writer = _writer(self._file, path.suffix.lower(), schema, with_op, time_zone)
        except BaseException:
            self.abort()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        with _telling(self._path):
            self._writer.write(batch)
        self.rows += batch.num_rows

    def finish(self) -> None:
        with _telling(self._path):
            self._writer.finish()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            mask = os.umask(0)
            os.umask(mask)
            self._temporary.chmod(0o666 & ~mask)
            self._temporary.replace(self._path)

    def abort(self) -> None:
        """Remove what was written; harmless after `finish`."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _telling(path: Path):  # type: ignore[no-untyped-def]
    try:
        yield
    except OSError as error:
        raise ExternalError(
            "SS5001",
            f'cannot write "{path}": {(error.strerror or str(error)).lower()}',
            hint="give another file with \\o",
        ) from error


def _writer(file: IO[bytes], suffix: str, schema: Schema, with_op: bool, time_zone: str) -> _Writer:
    import io

    from sqlstream.client.rendering.render import make_renderer
    from sqlstream.client.rendering.tables import Look

    if suffix == ".parquet":
        return _Parquet(file, schema, with_op)
    name = "csv" if suffix == ".csv" else "json"
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    return make_renderer(name, Look(schema, time_zone), with_op=with_op, out=text)


class _Parquet:
    """Row groups as batches come."""

    def __init__(self, file: IO[bytes], schema: Schema, with_op: bool) -> None:
        from pyarrow import parquet

        from sqlstream.arrow import to_arrow_schema
        from sqlstream.client.rendering.tables import OP

        arrow = to_arrow_schema(schema)
        if with_op and OP in schema.names:
            raise UserError(
                "SS4006",
                f'a parquet file cannot carry column "{OP}" in a changelog, where "{OP}" is the kind of a change',
                hint="name the column otherwise with AS",
            )
        self._with_op = with_op
        self._schema = pa.schema([pa.field(OP, pa.string()), *arrow]) if with_op else arrow
        self._writer = parquet.ParquetWriter(file, self._schema)

    def write(self, batch: pa.RecordBatch) -> None:
        from sqlstream.arrow import without_row_kinds
        from sqlstream.client.rendering.tables import op_column

        columns = without_row_kinds(batch).columns
        if self._with_op:
            columns = [op_column(batch), *columns]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def finish(self) -> None:
        self._writer.close()
