"""Compressed files: what is in them is read, and what is wrong with them is said."""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.runtime.formats import format_of
from sqlstream.schema import Schema
from sqlstream.spi.format import ReadRequest

SCHEMA = Schema.of(("s", sql.STRING))
ROWS = 400_000
TEXT = b"".join(b"row %d\n" % n for n in range(ROWS))


def compress_zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


def compress_lz4(data: bytes) -> bytes:
    return bytes(pa.compress(data, "lz4", asbytes=True))


def chunks(data: bytes, size: int) -> list[bytes]:
    return [
        bytes(pa.compress(data[at : at + size], "snappy", asbytes=True)) for at in range(0, len(data), size)
    ]


def compress_snappy_frames(data: bytes) -> bytes:
    """As Snappy's own framing has it; the checksums are not looked at."""
    half = len(data) // 2
    packed = b"".join(
        b"\0" + (len(c) + 4).to_bytes(3, "little") + b"\0" * 4 + c for c in chunks(data[:half], 65_536)
    )
    plain = b"".join(
        b"\x01" + (len(c) + 4).to_bytes(3, "little") + b"\0" * 4 + c
        for c in (data[at : at + 65_536] for at in range(half, len(data), 65_536))
    )
    return SNAPPY_MAGIC + packed + b"\xfe\x02\0\0ab" + SNAPPY_MAGIC + plain


def compress_snappy_blocks(data: bytes) -> bytes:
    """As Hadoop's codec, and with it Spark, has it: blocks of several chunks."""
    blocks = (data[at : at + 300_000] for at in range(0, len(data), 300_000))
    return b"".join(
        len(block).to_bytes(4, "big")
        + b"".join(len(c).to_bytes(4, "big") + c for c in chunks(block, 100_000))
        for block in blocks
    )


SNAPPY_MAGIC = b"\xff\x06\0\0sNaPpY"
COMPRESSIONS: list[tuple[str, Callable[[bytes], bytes]]] = [
    (".gz", gzip.compress),
    (".GZIP", gzip.compress),
    (".deflate", zlib.compress),
    (".bz2", bz2.compress),
    (".xz", functools.partial(lzma.compress, preset=0)),
    (".zst", compress_zstd),
    (".lz4", compress_lz4),
    (".sz", compress_snappy_frames),
    (".snappy", compress_snappy_frames),
    (".snappy", compress_snappy_blocks),
]


def read(data: bytes, path: str, identifier: str = "csv") -> list[Any]:
    reader = format_of(identifier).reader(ReadRequest(io.BytesIO(data), path, SCHEMA, ("s",), {}, 65536))
    return [value for batch, _ in reader.batches() for value in batch.column(0).to_pylist()]


@pytest.mark.parametrize(("suffix", "compress"), COMPRESSIONS)
def test_a_suffix_says_how_a_file_is_decompressed(suffix: str, compress: Callable[[bytes], bytes]) -> None:
    assert len(TEXT) > 4 << 20  # More than a block.
    assert read(compress(TEXT), f"f.csv{suffix}") == [f"row {n}" for n in range(ROWS)]


@pytest.mark.parametrize(("identifier", "text"), [("json", b'{"s":"a"}\n'), ("raw", b"a\n"), ("csv", b"a\n")])
def test_every_format_of_text_is_decompressed(identifier: str, text: bytes) -> None:
    assert read(gzip.compress(text), "f.gz", identifier) == ["a"]


def test_files_put_one_behind_the_other_are_read_to_the_end() -> None:
    assert read(gzip.compress(b"a\n") + gzip.compress(b"b\n"), "f.gz") == ["a", "b"]


def test_rows_are_passed_over_in_the_text() -> None:
    reader = format_of("csv").reader(
        ReadRequest(io.BytesIO(gzip.compress(b"a\nb\nc\n")), "f.gz", SCHEMA, ("s",), {}, 10, 2)
    )
    assert [value for batch, _ in reader.batches() for value in batch.column(0).to_pylist()] == ["c"]


@pytest.mark.parametrize(("suffix", "compress"), COMPRESSIONS)
def test_a_file_that_breaks_off_fails(suffix: str, compress: Callable[[bytes], bytes]) -> None:
    with pytest.raises(UserError, match=f'could not decompress "f{suffix}"') as failed:
        read(compress(TEXT)[:-20], f"f{suffix}")
    assert "is whole" in failed.value.hint


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".lz4", ".sz", ".snappy"])
def test_a_file_that_is_not_what_its_suffix_says_fails(suffix: str) -> None:
    with pytest.raises(UserError, match=f'could not decompress "f{suffix}"'):
        read(b"a\nb\n", f"f{suffix}")


HAVE_MARKS = [
    c for c in COMPRESSIONS if c[0] not in (".deflate", ".GZIP", ".sz") and c[1] is not compress_snappy_blocks
]


@pytest.mark.parametrize(("suffix", "compress"), HAVE_MARKS)
def test_a_compressed_file_without_its_suffix_is_no_text(
    suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    with pytest.raises(UserError, match="is compressed") as refused:
        read(compress(b"a\n" * 100), "f.csv")
    assert f'"f.csv{suffix}"' in refused.value.hint


@pytest.mark.parametrize("identifier", ["csv", "raw"])
@pytest.mark.parametrize(("suffix", "compress"), [("", bytes), *COMPRESSIONS])
def test_blocks_are_as_small_as_is_asked_for(
    suffix: str, compress: Callable[[bytes], bytes], identifier: str
) -> None:
    reader = format_of(identifier).reader(
        ReadRequest(io.BytesIO(compress(TEXT)), f"f{suffix}", SCHEMA, ("s",), {}, 256, 0, 1 << 16)
    )
    sizes = [batch.nbytes for batch, _ in reader.batches()]
    assert max(sizes) <= 2 << 16
    assert len(sizes) >= len(TEXT) >> 16
