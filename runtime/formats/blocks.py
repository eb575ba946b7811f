"""A file of text rows in blocks that end where a row ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

import msgspec
import numpy as np

from sqlstream.errors import UserError
from sqlstream.runtime.formats.compression import decompressed, refuse_compressed, undecompressible
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
    `is_plain` is the mark that the format's cut gave them."""

    data: bytes
    first_line: int
    newlines: int
    is_plain: bool = True


class Cut(NamedTuple):
    """How many of some bytes are whole rows (0: not even one), and a mark of these rows for the format's decoder."""

    end: int
    is_plain: bool = True


CutRows = Callable[[bytes, bool], Cut]
"""Cuts bytes that start with a row; the second argument is true when they reach the end of the file."""


def read_blocks(
    stream: BinaryIO,
    path: str,
    cut_rows: CutRows,
    block_bytes: Callable[[], int] = lambda: BLOCK_BYTES,
    *,
    is_utf_8: bool = True,
) -> Iterator[Block]:
    """All rows of a file; text after the last row end is a row too.

    `block_bytes` is called before each block and returns how much to read. Blocks of a compressed file hold its text,
    which is decompressed as they are read. With `is_utf_8` text in UTF-16 is refused with UserError SS5011.
    """
    stream = decompressed(stream, path)
    rest, line, want = b"", 1, block_bytes()
    is_first = True
    while chunk := _read(stream, path, want):
        data = rest + chunk
        if is_first:
            # The first read may return less than the byte order mark, or than the magic number of a compressed file.
            while len(data) < _BEGINNING_BYTES and (chunk := _read(stream, path, _BEGINNING_BYTES)):
                data += chunk
            refuse_compressed(data, path)
            if is_utf_8 and data.startswith(UTF_16_MARKS):
                raise UserError("SS5011", f'"{path}" is text in UTF-16', hint=UTF_16_HINT)
            data, is_first = data.removeprefix(_BYTE_ORDER_MARK), False
        cut = cut_rows(data, False)
        rest = data[cut.end :]
        if len(rest) > ROW_BYTES_MAX:
            raise UserError(
                "SS5011",
                f'the row that begins on line {line + count_lines(data[: cut.end])} of "{path}" does not end',
                hint="check the line ends and quotes of the file",
            )
        if cut.end:
            whole = data[: cut.end]
            newlines = count_lines(whole)
            yield Block(whole, line, newlines, cut.is_plain)
            line += newlines
        # A row longer than what was read: read as much again, so that rescanning stays linear.
        want = max(block_bytes(), len(rest))
    if rest:
        yield Block(rest, line, count_lines(rest), cut_rows(rest, True).is_plain)


def cut_at_newline(data: bytes, is_last: bool) -> Cut:
    return Cut(len(data) if is_last else data.rfind(b"\n") + 1)


def count_lines(data: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == 10))


def _read(stream: BinaryIO, path: str, size: int) -> bytes:
    try:
        return stream.read(size)
    except OSError as error:
        if error.errno is None:
            raise undecompressible(path, error) from error
        raise file_error("read", path, error) from error
