"""Files with flipped bits and torn ends, of every format and compression: rows come of them, or an error that names the file."""

from __future__ import annotations

import bz2
import datetime
import gzip
import io
import lzma
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import ExternalError, SqlStreamError, UserError
from sqlstream.runtime.formats import blocks, format_of
from sqlstream.schema import Schema
from sqlstream.spi.format import ReadRequest

SCHEMA = Schema.of(
    ("a", sql.BIGINT),
    ("s", sql.STRING),
    ("d", sql.decimal(10, 2)),
    ("t", sql.timestamp(3)),
    ("b", sql.BOOLEAN),
)
NESTED = Schema.of(
    *zip(SCHEMA.names, SCHEMA.types, strict=True),
    ("l", sql.array(sql.row(("x", sql.INT), ("y", sql.STRING)))),
)
TEXT = Schema.of(("s", sql.STRING))
ROWS: list[dict[str, Any]] = [
    {
        "a": n,
        "s": f'té"xt {n % 7}' if n % 5 else None,
        "d": n,
        "t": datetime.datetime(2020, 1, 1),
        "b": n % 2 == 0,
        "l": [{"x": n, "y": "y"}, None] if n % 3 else None,
    }
    for n in range(150)
]


def parquet_file(codec: str) -> bytes:
    stream = io.BytesIO()
    table = pa.Table.from_pylist(ROWS, schema=to_arrow_schema(NESTED))
    pq.write_table(table, stream, compression=codec, row_group_size=60)
    return stream.getvalue()


def text_file(identifier: str, schema: Schema) -> bytes:
    stream = io.BytesIO()
    writer = format_of(identifier).writer(stream, schema, {})
    rows = [{name: row[name] for name in schema.names} for row in ROWS]
    writer.write(pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(schema)))
    writer.close()
    return stream.getvalue()


def avro_file(codec: str) -> bytes:
    stream = io.BytesIO()
    writer = format_of("avro").writer(stream, NESTED, {"codec": codec})
    for first in range(0, len(ROWS), 50):
        writer.write(pa.RecordBatch.from_pylist(ROWS[first : first + 50], schema=to_arrow_schema(NESTED)))
    writer.close()
    return stream.getvalue()


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: bytes(pa.compress(data, "zstd", asbytes=True)),
}
TEXT_FORMATS = [("csv", SCHEMA), ("json", NESTED), ("raw", TEXT)]
FILES: dict[str, tuple[str, Schema, Callable[[], bytes]]] = {
    **{
        f"f.{identifier}{suffix}": (
            identifier,
            schema,
            lambda i=identifier, s=schema, c=compress: c(text_file(i, s)),
        )
        for identifier, schema in TEXT_FORMATS
        for suffix, compress in COMPRESSIONS.items()
    },
    **{
        f"f-{codec}.avro": ("avro", NESTED, lambda c=codec: avro_file(c))
        for codec in ("null", "snappy", "deflate", "bzip2", "xz", "zstandard")
    },
    **{
        f"f-{codec}.parquet": ("parquet", NESTED, lambda c=codec: parquet_file(c))
        for codec in ("none", "snappy", "gzip", "zstd", "lz4")
    },
}


def broken(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 5])):
        first = chance.choice([0, 0, len(changed) * 2 // 3])
        changed[chance.randrange(first, len(changed))] ^= 1 << chance.randrange(8)
    if chance.random() < 0.2:
        del changed[chance.randrange(len(changed)) :]
    return bytes(changed)


def read(
    data: bytes, path: str, identifier: str, schema: Schema, columns: tuple[str, ...], **options: str
) -> int:
    stream = io.BytesIO(data)
    reader = format_of(identifier).reader(ReadRequest(stream, path, schema, columns, options, 50))
    rows = 0
    for batch, _ in reader.batches():
        batch.validate(full=True)
        rows += batch.num_rows
    return rows


def error_of(*arguments: Any, **options: str) -> SqlStreamError | None:
    try:
        read(*arguments, **options)
    except SqlStreamError as error:
        return error
    return None


def fails_only_with_the_files_name(path: str, rounds: int, seed: int) -> None:
    identifier, schema, make = FILES[path]
    whole, chance = make(), random.Random(f"{path} {seed}")
    assert read(whole, path, identifier, schema, schema.names) == len(ROWS)
    for _ in range(rounds):
        columns = schema.names if chance.random() < 0.7 else tuple(chance.sample(schema.names, 1))
        options = (
            {}
            if identifier in ("raw", "parquet", "avro")
            else {"ignore-parse-errors": chance.choice(["true", "false"])}
        )
        error = error_of(broken(whole, chance), path, identifier, schema, columns, **options)
        assert error is None or isinstance(error, UserError | ExternalError)
        assert error is None or path in error.message


@pytest.mark.parametrize("path", FILES)
def test_a_broken_file_gives_rows_or_an_error_with_its_name(path: str) -> None:
    fails_only_with_the_files_name(path, rounds=60, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("seed", range(1, 6))
def test_broken_files_give_rows_or_errors_with_their_names(path: str, seed: int) -> None:
    fails_only_with_the_files_name(path, rounds=1000, seed=seed)


def test_a_corrupt_page_is_said_with_the_files_name() -> None:
    data = bytearray(parquet_file("snappy"))
    data[40:80] = bytes(40)
    with pytest.raises(UserError, match=r'could not read "f\.parquet" as parquet: ') as failed:
        read(bytes(data), "f.parquet", "parquet", NESTED, ("a",))
    assert failed.value.code == "SS5011"


def test_text_that_is_no_text_does_not_come_out_of_a_parquet_file() -> None:
    stream = io.BytesIO()
    pq.write_table(pa.table({"s": ["abcdefgh"]}), stream, compression="none", use_dictionary=False)
    data = stream.getvalue().replace(b"abcdefgh", b"abc\xff\xfeefg")
    with pytest.raises(UserError, match=r'could not read "f\.parquet" as parquet: .*UTF8'):
        read(data, "f.parquet", "parquet", TEXT, ("s",))


class CountingStream(io.BytesIO):
    """Counts the bytes that are taken from it."""

    taken = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.taken += len(data)
        return data


@pytest.mark.parametrize("identifier", ["csv", "json", "raw"])
def test_a_compressed_line_without_end_is_not_taken_into_memory(
    identifier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "ROW_BYTES_MAX", 1 << 20)
    data = gzip.compress(b"a" * (64 << 20), compresslevel=1)
    stream = CountingStream(data)
    with pytest.raises(UserError, match=r'line 1 of "f\.gz" does not end'):
        list(format_of(identifier).reader(ReadRequest(stream, "f.gz", TEXT, ("s",), {}, 50)).batches())
    assert stream.taken < len(data) / 2


class FailingStream(io.BytesIO):
    """A disk that fails."""

    def read(self, size: int | None = -1) -> bytes:
        raise OSError(5, "Input/output error")

    def readinto(self, buffer: object) -> int:
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("identifier", ["csv", "json", "raw", "parquet"])
def test_a_disk_that_fails_is_told_from_a_broken_file(identifier: str) -> None:
    reader = format_of(identifier).reader(
        ReadRequest(FailingStream(b"abc" * 10), "f.x", TEXT, ("s",), {}, 10)
    )
    with pytest.raises(ExternalError, match=r'could not read "f\.x": input/output error'):
        list(reader.batches())
