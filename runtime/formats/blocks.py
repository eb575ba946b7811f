"""A file of text rows in blocks that end where a row ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec
import numpy as np

from runtime.formats.compression import decompressed, refuse_compressed, undecompressible
from runtime.host.files import file_error
from sqlstream.errors import UserError

BLOCK_BYTES = 4 << 20
"""How much is decoded at once: enough to pay for the calls, little enough to stay near the caches."""

ROW_BYTES_MAX = 256 << 20
"""A row of a text file that is longer than this is taken for a missing line end or quote."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Block(msgspec.Struct, frozen=True):
    """Whole rows; `first_line` is the 1-based line of the file on which they begin, `newlines` counts those among them."""

    data: bytes
    first_line: int
    newlines: int


def read_blocks(
    stream: BinaryIO,
    path: str,
    complete_bytes: Callable[[bytes], int],
    block_bytes: Callable[[], int] = lambda: BLOCK_BYTES,
) -> Iterator[Block]:
    """`complete_bytes` says how much of some bytes, which start with a row, is whole rows (0: not even one).

    `block_bytes` is asked how much to read before each block. Blocks of a compressed file are of its text,
    decompressed as they are asked for.
    """
    stream = decompressed(stream, path)
    rest, line, want = b"", 1, block_bytes()
    is_first = True
    while chunk := _read(stream, path, want):
        data = rest + chunk
        if is_first:
            refuse_compressed(data, path)
            data, is_first = data.removeprefix(_BYTE_ORDER_MARK), False
        end = complete_bytes(data)
        rest = data[end:]
        if len(rest) > ROW_BYTES_MAX:
            raise UserError(
                "SS5011",
                f'the row that begins on line {line + count_lines(data[:end])} of "{path}" does not end',
                hint="check the line ends and quotes of the file",
            )
        if end:
            whole = data[:end]
            newlines = count_lines(whole)
            yield Block(whole, line, newlines)
            line += newlines
        # A row longer than what was read: read as much again, so that rescanning stays linear.
        want = max(block_bytes(), len(rest))
    if rest:
        yield Block(rest, line, count_lines(rest))


def after_last_newline(data: bytes) -> int:
    return data.rfind(b"\n") + 1


def count_lines(data: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == 10))


def _read(stream: BinaryIO, path: str, size: int) -> bytes:
    try:
        return stream.read(size)
    except OSError as error:
        if error.errno is None:
            raise undecompressible(path, error) from error
        raise file_error("read", path, error) from error
