"""Text files in blocks that end where a row ends, decompressed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import msgspec
import numpy as np

from sqlstream.errors import UserError
from sqlstream.runtime.host.files import file_error

BLOCK_BYTES = 4 << 20
"""Bytes decoded at once: enough that the calls cost little, few enough to stay near the caches."""

ROW_BYTES_MAX = 256 << 20
"""A longer row of a text file is an error: most likely a line end or a quote is missing."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""What text in UTF-16 begins with, and no text in UTF-8."""
UTF_16_HINT = "convert it, as iconv -f UTF-16 -t UTF-8 does"
_BEGINNING_BYTES = 16


class Block(msgspec.Struct, frozen=True):
    """Whole rows; `first_line` is the 1-based line of the file on which they begin, `newlines` counts those among them.
    `is_plain` and `index` are what the format's cut gave them."""

    data: bytes
    first_line: int
    newlines: int
    is_plain: bool = True
    index: Any = None


class Cut(NamedTuple):
    """How many of some bytes are whole rows (0: not even one). For the format's decoder, a mark of these rows, and what it has
    found in the bytes. `newlines`: how many there are in the rows, where that is known."""

    end: int
    is_plain: bool = True
    index: Any = None
    newlines: int | None = None


CutRows = Callable[[bytes | bytearray, bool], Cut]
"""Cuts bytes that start with a row; the second argument is true when they reach the end of the file."""


def read_blocks(
    stream: BinaryIO,
    path: str,
    cut_rows: CutRows,
    block_bytes: int = BLOCK_BYTES,
    *,
    is_utf_8: bool = True,
    lends: bool = False,
) -> Iterator[Block]:
    """All rows of a file; text after the last row end is a row too.

    `block_bytes` is how much is read for a block. Blocks of a compressed file hold its text, which is decompressed as they are
    read. With `is_utf_8` text in UTF-16 is refused with UserError SS5011. With `lends` the data of a block is a view of memory
    that is used again for the next one: `owned` makes it bytes.
    """
    stream = decompressed(stream, path)
    # What is read is cut in memory that is used again for the next block, which stays in the caches.
    room = max(block_bytes, _BEGINNING_BYTES)
    memory, filled, line = bytearray(room), 0, 1
    is_first = True
    while (size := _read_into(stream, path, memory, filled, max(block_bytes, filled))) or filled:
        filled += size
        if is_first:
            # The first read may return less than the byte order mark, or than the magic number of a compressed file.
            while filled < _BEGINNING_BYTES and (
                size := _read_into(stream, path, memory, filled, block_bytes)
            ):
                filled += size
            filled, is_first = _without_mark(memory, filled, path, is_utf_8), False
        text = memory if filled == len(memory) else memory[:filled]
        cut = cut_rows(text, size == 0)
        end = cut.end if size else filled
        if end:
            whole: Any = memoryview(text)[:end]
            newlines = count_lines(whole) if cut.newlines is None else cut.newlines
            yield Block(whole if lends else bytes(whole), line, newlines, cut.is_plain, cut.index)
            line += newlines
        filled -= end
        if filled > ROW_BYTES_MAX:
            raise UserError(
                "SS5011",
                f'the row that begins on line {line} of "{path}" does not end',
                hint="check the line ends and quotes of the file",
            )
        # Behind the beginning of a long row there is room for as much again, so that rescanning stays linear.
        wanted = room if 2 * filled <= room else 2 * filled
        rest = text[end:]
        if len(memory) != wanted:
            memory = bytearray(wanted)
        memory[:filled] = rest


def _without_mark(memory: bytearray, filled: int, path: str, is_utf_8: bool) -> int:
    """Check the beginning of a text and take the byte order mark away; how many bytes are filled then."""
    beginning = bytes(memory[: min(filled, _BEGINNING_BYTES)])
    refuse_compressed(beginning, path)
    if is_utf_8 and beginning.startswith(UTF_16_MARKS):
        raise UserError("SS5011", f'"{path}" is text in UTF-16', hint=UTF_16_HINT)
    if not beginning.startswith(_BYTE_ORDER_MARK):
        return filled
    marked = len(_BYTE_ORDER_MARK)
    memory[: filled - marked] = memory[marked:filled]
    return filled - marked


def owned(block: Block) -> Block:
    """The block for as long as something refers to its data."""
    return block if isinstance(block.data, bytes) else msgspec.structs.replace(block, data=bytes(block.data))


def count_lines(data: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == 10))


def _read_into(stream: BinaryIO, path: str, memory: bytearray, filled: int, size_max: int) -> int:
    """Read at most so many bytes, and what the memory has room for, behind what is filled; 0 at the end."""
    with memoryview(memory)[filled : filled + size_max] as room:
        try:
            if (read_into := getattr(stream, "readinto", None)) is not None:
                return int(read_into(room))
            chunk = stream.read(len(room))
        except OSError as error:
            if error.errno is None:
                raise undecompressible(path, error) from error
            raise file_error("read", path, error) from error
        room[: len(chunk)] = chunk
        return len(chunk)


# Reads compressed files as their text; the suffix of the name selects the codec, as in Flink.


_ARROW_CODECS = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".deflate": "gzip",  # Arrow's codec takes either header.
    ".bz2": "bz2",
    ".lz4": "lz4",
    ".zst": "zstd",
}
_SNAPPY = (".snappy", ".sz")
_BEGINNINGS = {
    b"\x1f\x8b\x08": ("gzip", ".gz"),
    b"BZh91AY&SY": ("bzip2", ".bz2"),
    b"\xfd7zXZ\0": ("xz", ".xz"),
    b"\x28\xb5\x2f\xfd": ("Zstandard", ".zst"),
    b"\x04\x22\x4d\x18": ("LZ4", ".lz4"),
    b"\xff\x06\0\0sNaPpY": ("Snappy", ".snappy"),
    b"PK\x03\x04": ("zip", ""),
}


def is_compressed(path: str) -> bool:
    """Whether a file of that name is read as compressed text."""
    return os.path.splitext(path)[1].lower() in (".xz", *_SNAPPY, *_ARROW_CODECS)


def decompressed(stream: BinaryIO, path: str) -> BinaryIO:
    """The text of a file piece by piece; `read` raises OSError without `errno` where it does not match its suffix."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix == ".xz":
        return _Xz(stream)  # type: ignore[return-value]
    if suffix in _SNAPPY:
        from sqlstream.runtime.formats.snappy_stream import SnappyStream

        return SnappyStream(stream)  # type: ignore[return-value]
    if suffix not in _ARROW_CODECS:
        return stream
    import pyarrow as pa

    text: Any = pa.CompressedInputStream(stream, _ARROW_CODECS[suffix])
    return text


class _Xz:
    """Decompresses formats that Arrow has no codec for. State: the stream's position."""

    def __init__(self, stream: BinaryIO) -> None:
        import lzma

        self._file = lzma.LZMAFile(stream)  # noqa: SIM115 (whoever opened the stream closes it)
        self._errors = (lzma.LZMAError, EOFError)

    def read(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except self._errors as error:
            raise OSError(str(error)) from error


def undecompressible(path: str, error: OSError) -> UserError:
    return UserError(
        "SS5011",
        f'could not decompress "{path}": {str(error).lower()}',
        hint="check that the file is whole, and compressed in the way that its suffix says",
    )


def refuse_compressed(data: bytes, path: str) -> None:
    """Check that `data`, the beginning of a text file, is text. UserError SS5011 when it begins a compressed file."""
    for beginning, (kind, suffix) in _BEGINNINGS.items():
        if data.startswith(beginning):
            raise UserError(
                "SS5011",
                f'"{path}" is no text: the file is compressed ({kind})',
                hint=f'name it "{path}{suffix}" to have it decompressed' if suffix else "unpack it",
            )
