"""Object container files of Avro: a header with the schema, and blocks of rows."""

from __future__ import annotations

import bz2
import functools
import json
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from sqlstream.errors import UserError
from sqlstream.runtime.formats.avro.decoder import REASONS, Program, Unfit
from sqlstream.runtime.formats.avro.encoder import RowEncoder
from sqlstream.runtime.formats.file_rows import FileRows
from sqlstream.schema import Schema
from sqlstream.spi.format import ReadRequest, Rejected

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_BLOCK_BYTES = 64 << 10
"""About how much a written block has before it is compressed."""
_BLOCK_BYTES_MAX = 2**31 - 1
_READ_BYTES = 1 << 20


def _snappy(data: bytes) -> bytes:
    check = zlib.crc32(data).to_bytes(4, "big")
    return bytes(pa.compress(data, codec="snappy", asbytes=True)) + check


def _from_snappy(data: bytes) -> bytes:
    size, _ = _unsigned(data)
    if size > _BLOCK_BYTES_MAX:
        raise ValueError("a block is too large")
    found = bytes(pa.decompress(data[:-4], size, codec="snappy", asbytes=True))
    if zlib.crc32(found).to_bytes(4, "big") != data[-4:]:
        raise ValueError("a block does not fit its checksum")
    return found


def _from_deflate(data: bytes) -> bytes:
    made = zlib.decompressobj(-15)
    found = made.decompress(data, _BLOCK_BYTES_MAX)
    if not made.eof:
        raise ValueError("a block ends early, or is too large")
    return found


def _deflate(data: bytes) -> bytes:
    made = zlib.compressobj(wbits=-15)
    return made.compress(data) + made.flush()


def _from_zstandard(data: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        found = bytes(stream.read(_BLOCK_BYTES_MAX + 1))
    if len(found) > _BLOCK_BYTES_MAX:
        raise ValueError("a block is too large")
    return found


def _from_frames(made: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor], data: bytes) -> bytes:
    """Of streams of bzip2 or xz, one behind the other."""
    parts, left = list[bytes](), _BLOCK_BYTES_MAX
    while data or not parts:
        frame = made()
        parts.append(frame.decompress(data, left))
        left -= len(parts[-1])
        if not frame.eof:
            raise ValueError("a block ends early, or is too large")
        data = frame.unused_data
    return b"".join(parts)


CODECS: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "snappy": (_snappy, _from_snappy),
    "null": (bytes, bytes),
    "deflate": (_deflate, _from_deflate),
    "bzip2": (bz2.compress, functools.partial(_from_frames, bz2.BZ2Decompressor)),
    "xz": (lzma.compress, functools.partial(_from_frames, lzma.LZMADecompressor)),
    "zstandard": (lambda data: bytes(pa.compress(data, codec="zstd", asbytes=True)), _from_zstandard),
}
"""How blocks are compressed: there and back."""


class AvroReader(FileRows):
    """Reads blocks until they have about `batch_rows` rows; skipped ones are not decompressed."""

    def __init__(self, request: ReadRequest) -> None:
        super().__init__(request)
        self._batch_rows = request.batch_rows
        self._input = _Input(request.stream)

    def decoded(self) -> Iterator[tuple[pa.RecordBatch, list[Rejected]]]:
        batches = self._batches()
        while True:
            try:
                batch = next(batches, None)
            except Unfit as error:
                raise self._unfit(error) from error
            except (
                ValueError,
                LookupError,
                ArithmeticError,
                TypeError,
                AttributeError,
                RecursionError,
            ) as error:
                raise self._unreadable(str(error) or type(error).__name__) from error
            except (pa.ArrowException, zlib.error, lzma.LZMAError, MemoryError) as error:
                raise self._unreadable(f"a block is damaged: {error}") from error
            except OSError as error:
                if error.errno is not None:
                    raise
                raise self._unreadable(f"a block is damaged: {error}") from error
            if batch is None:
                return
            yield batch, []

    def _batches(self) -> Iterator[pa.RecordBatch]:
        schema, codec, sync = self._header()
        program = Program(schema, self._types)
        blocks: list[bytes] = []
        counts: list[int] = []
        while (block := self._block(sync)) is not None:
            count, data = block
            if not counts and count <= self._skip_rows:
                self._skip_rows -= count
                continue
            blocks.append(codec(data))
            counts.append(count)
            if sum(counts) >= self._batch_rows or sum(map(len, blocks)) >= _READ_BYTES:
                yield from self._rows(program, blocks, counts)
                blocks, counts = [], []
        yield from self._rows(program, blocks, counts)

    def _rows(self, program: Program, blocks: list[bytes], counts: list[int]) -> Iterator[pa.RecordBatch]:
        if not counts:
            return
        for data, count in zip(blocks, counts, strict=True):
            if count > max(len(data), 1) and program.has_bytes:
                raise ValueError("a block says that it has more rows than bytes")
        found = program.decoded(pa.array(blocks, pa.binary()), np.array(counts, dtype=np.int64))
        if len(found.rejected):
            raise ValueError(REASONS[int(found.rejected[0, 1])].replace("it ", "a block ", 1))
        for first in range(0, max(found.batch.num_rows, 1), self._batch_rows):
            yield found.batch.slice(first, self._batch_rows)

    def _header(self) -> tuple[Any, Callable[[bytes], bytes], bytes]:
        if self._input.take(len(_MAGIC)) != _MAGIC:
            raise ValueError("it does not begin as one")
        meta: dict[str, bytes] = {}
        while (count := self._input.number()) != 0:
            if count < 0:
                self._input.number()
            for _ in range(abs(count)):
                key = self._input.take(self._input.number()).decode()
                meta[key] = self._input.take(self._input.number())
        codec = meta.get("avro.codec", b"null").decode()
        if codec not in CODECS:
            raise ValueError(f'its blocks are compressed by "{codec}", which is none of {", ".join(CODECS)}')
        schema = json.loads(meta["avro.schema"]) if "avro.schema" in meta else None
        if schema is None:
            raise ValueError("its header has no schema")
        return schema, CODECS[codec][1], self._input.take(_SYNC_BYTES)

    def _block(self, sync: bytes) -> tuple[int, bytes] | None:
        """The number of rows, and the compressed bytes, of the next block."""
        if self._input.is_at_end():
            return None
        count, size = self._input.number(), self._input.number()
        if count < 0 or size > _BLOCK_BYTES_MAX:
            raise ValueError("a block has a length that is none")
        data = self._input.take(size)
        if self._input.take(_SYNC_BYTES) != sync:
            raise ValueError("a block does not end with the mark of the file")
        return count, data

    def _unreadable(self, reason: str) -> UserError:
        return UserError(
            "SS5011",
            f'could not read "{self._path}" as avro: {reason}',
            hint="check that the file is a whole object container file of Avro",
        )

    def _unfit(self, error: Unfit) -> UserError:
        declared = self._types[error.column].without_time_attribute().with_nullable(True)
        return UserError(
            "SS5012",
            f'column "{error.column}" of file "{self._path}" is {error.stored}, the table declares {declared}',
            hint="declare the column with the type that it has in the file",
        )


class _Input:
    """A stream with numbers of Avro. ValueError where it ends early."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._data, self._at = b"", 0

    def is_at_end(self) -> bool:
        return not self._has(1)

    def _has(self, size: int) -> bool:
        missing = self._at + size - len(self._data)
        if missing <= 0:
            return True
        parts, self._at = [self._data[self._at :]], 0
        while missing > 0 and (more := self._stream.read(max(min(missing, _BLOCK_BYTES_MAX), _READ_BYTES))):
            parts.append(more)
            missing -= len(more)
        self._data = b"".join(parts)
        return missing <= 0

    def take(self, size: int) -> bytes:
        if size < 0:
            raise ValueError("a length in it is none")
        if not self._has(size):
            raise ValueError("it ends early")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self) -> int:
        for size in range(1, 11):
            if not self._has(size):
                raise ValueError("it ends early")
            if self._data[self._at + size - 1] < 128:
                word, size = _unsigned(self.take(size))
                return (word >> 1) ^ -(word & 1)
        raise ValueError("a number in it is none")


def _unsigned(data: bytes) -> tuple[int, int]:
    """A number of seven bits a byte, and how many bytes it takes."""
    word = 0
    for place, byte in enumerate(data[:10]):
        word |= (byte & 127) << (7 * place)
        if byte < 128:
            return word, place + 1
    raise ValueError("a number in it is none")


def _number(value: int) -> bytes:
    word = value << 1 if value >= 0 else ~(value << 1)
    made = bytearray()
    while word > 127:
        made.append(word & 127 | 128)
        word >>= 7
    made.append(word)
    return bytes(made)


class AvroWriter:
    """Writes the rows of a batch as blocks of about 64 KB. No state but the mark of the file."""

    def __init__(self, stream: BinaryIO, schema: Schema, record: Any, codec: str) -> None:
        self._stream = stream
        self._encoder = RowEncoder(schema)
        self._compress = CODECS[codec][0]
        self._sync = os.urandom(_SYNC_BYTES)
        meta = {b"avro.schema": json.dumps(record).encode(), b"avro.codec": codec.encode()}
        entries = b"".join(_number(len(k)) + k + _number(len(v)) + v for k, v in meta.items())
        self._stream.write(_MAGIC + _number(len(meta)) + entries + _number(0) + self._sync)

    def write(self, batch: pa.RecordBatch) -> None:
        rows = self._encoder.encode(batch)
        ends = np.frombuffer(rows.buffers()[1], dtype=np.int32)
        data = memoryview(rows.buffers()[2])
        first = 0
        while first < batch.num_rows:
            end = max(int(np.searchsorted(ends, int(ends[first]) + _BLOCK_BYTES)), first + 1)
            end = min(end, batch.num_rows)
            block = self._compress(bytes(data[ends[first] : ends[end]]))
            self._stream.write(_number(end - first) + _number(len(block)) + block + self._sync)
            first = end

    def close(self) -> None:
        """Nothing is buffered."""
