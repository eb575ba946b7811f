"""Columns of CSV files: DuckDB sniffs the dialect and the types, and the reader of format `csv` has the last word."""

from __future__ import annotations

import csv
import io
import os
from typing import TYPE_CHECKING, Any

from sqlstream import types as sql
from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import UserError
from sqlstream.runtime.formats.blocks import is_compressed
from sqlstream.runtime.formats.csv_dialect import CsvDialect
from sqlstream.runtime.inference.duckdb_sniffer import DATE_FORMAT, scalar_type, sniffing
from sqlstream.runtime.inference.samples import are_cut, cannot_infer, do_not_fit, read_samples
from sqlstream.schema import Field, Schema
from sqlstream.spi.files import FileStatus
from sqlstream.types import LogicalType

if TYPE_CHECKING:
    import pyarrow as pa

_NONE = "(empty)"
"""What DuckDB says of a quote, escape or comment character that a text does not have."""


def infer_csv(found: list[FileStatus], options: dict[str, str], files: Any) -> tuple[Schema, dict[str, str]]:
    """The columns of the files, and the options of format `csv` (without its prefix) that they are read with. `options` are
    those that the user gives."""
    samples = read_samples(found, files)
    path, text = samples[0]
    written = {**_dialect(path, text, options), **options}
    if len(samples) > 1:
        text = _joined(samples, CsvDialect.parse(written))
    columns = _sniffed(path, text, written)["Columns"]
    schema = Schema(tuple(Field(c["name"], scalar_type(c["type"])) for c in columns))
    return _readable(path, text, schema, written), written


def _sniffed(path: str, text: bytes, options: dict[str, str]) -> dict[str, Any]:
    import duckdb

    known = _known(options)
    names = "".join(f", {name} = ?" for name in known)
    try:
        with sniffing(text) as (connection, sample):
            found = connection.execute(
                f"FROM sniff_csv(?, sample_size = -1, dateformat = ?{names})",
                [sample, DATE_FORMAT, *known.values()],
            )
            row = found.fetchone() or ()
            return dict(zip([d[0] for d in found.description or ()], row, strict=True))
    except (duckdb.Error, UnicodeDecodeError) as error:
        hint = "say how it is written, with options such as 'csv.field-delimiter', or declare the table with CREATE TABLE"
        raise cannot_infer(path, "it is not recognised as CSV", hint) from error


def _known(options: dict[str, str]) -> dict[str, Any]:
    """Options that are given, as arguments of DuckDB's sniffer."""
    dialect = CsvDialect.parse(options)
    known: dict[str, Any] = {}
    if "field-delimiter" in options:
        known["delim"] = dialect.delimiter
    if "quote-character" in options or "disable-quote-character" in options:
        known["quote"] = dialect.quote
    if "escape-character" in options:
        known["escape"] = dialect.escape or dialect.quote
    if "header" in options:
        known["header"] = dialect.has_header
    if dialect.allows_comments:
        known["comment"] = "#"
    if dialect.null_literal is not None:
        known["nullstr"] = dialect.null_literal
    return known


def _dialect(path: str, text: bytes, given: dict[str, str]) -> dict[str, str]:
    found = _sniffed(path, text, given)
    options = {"header": str(bool(found["HasHeader"])).lower(), "empty-string-as-null": "true"}
    if found["Delimiter"] != ",":
        options["field-delimiter"] = found["Delimiter"].replace("\t", "\\t")
    quote, escape = found["Quote"], found["Escape"]
    if "quote-character" not in given and "disable-quote-character" not in given:
        if quote not in (_NONE, '"'):
            options["quote-character"] = quote
        elif quote == _NONE and b'"' in text:
            options["disable-quote-character"] = "true"
    if escape not in (_NONE, quote):
        options["escape-character"] = escape
    skipped = text.split(b"\n", found["SkipRows"])[: found["SkipRows"]]
    if skipped:
        if not all(line.startswith(b"#") or not line.strip() for line in skipped):
            count = f"first {len(skipped)} lines are" if len(skipped) > 1 else "first line is"
            raise cannot_infer(
                path, f"its {count} no part of the table", "remove what stands before the header"
            )
        options["allow-comments"] = "true"
    if found["Comment"] == "#":
        options["allow-comments"] = "true"
    elif found["Comment"] != _NONE:
        reason = f'its comments begin with "{found["Comment"]}"; those of format csv begin with #'
        raise cannot_infer(path, reason, "remove the comments")
    return options


def _joined(samples: list[tuple[str, bytes]], dialect: CsvDialect) -> bytes:
    """One text of all samples, which must have the same header."""
    first, text = samples[0]
    parts = [_ended(text)]
    wanted = _header(first, text, dialect) if dialect.has_header else []
    for path, sample in samples[1:]:
        if dialect.has_header:
            names = _header(path, sample, dialect)
            if names != wanted:
                detail = f"the columns are {', '.join(wanted)} and {', '.join(names)}"
                raise do_not_fit(first, path, "its header is another", detail)
            sample = sample[dialect.header_end(sample, 0) :]
        parts.append(_ended(sample))
    return b"".join(parts)


def _ended(text: bytes) -> bytes:
    return text if text.endswith(b"\n") else text + b"\n"


def _header(path: str, text: bytes, dialect: CsvDialect) -> list[str]:
    line = text[: dialect.header_end(text, 0)].rstrip(b"\r\n").decode("utf-8", "replace")
    try:
        return dialect.split_header(line)
    except csv.Error as error:
        raise cannot_infer(path, f"its header is none: {error}") from error


def _readable(path: str, text: bytes, schema: Schema, options: dict[str, str]) -> Schema:
    """The columns, with STRING for those of which the format's reader would refuse a value, or cut it."""
    texts = _texts(path, text, schema, options)
    if not texts:
        return schema
    fields = []
    for field in schema.fields:
        check_not_given_up()
        columns = [batch.column(field.name) for batch in texts]
        is_exact = all(_reads(column, field.type) for column in columns)
        fields.append(field if is_exact else Field(field.name, sql.STRING))
    return Schema(tuple(fields))


def _texts(path: str, text: bytes, schema: Schema, options: dict[str, str]) -> list[pa.RecordBatch]:
    """The sample as the format reads it, all columns STRING."""
    from sqlstream.runtime.formats.csv import Csv
    from sqlstream.spi.format import ReadRequest

    strings = Schema(tuple(Field(name, sql.STRING) for name in schema.names))
    tolerant = {**options, "ignore-parse-errors": "true"}
    try:
        # The sample is decompressed.
        name = os.path.splitext(path)[0] if is_compressed(path) else path
        reader = Csv().reader(
            ReadRequest(io.BytesIO(text), name, strings, strings.names, tolerant, len(text))
        )
        return [batch for batch, _ in reader.batches() if batch.num_rows]
    except UserError as error:
        if error.code != "SS5012":
            raise
        reason = "its header does not give every column a name of its own"
        raise cannot_infer(path, reason, detail=error.detail) from error


def _reads(column: pa.Array, t: LogicalType) -> bool:
    import pyarrow as pa

    from sqlstream.runtime.formats.csv import parse_fields

    if t == sql.STRING:
        return True
    if are_cut(column, t):
        return False
    try:
        parse_fields(column.cast(pa.binary()), t)
    except pa.ArrowInvalid:
        return False
    return True
