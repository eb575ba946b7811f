"""Streams of text files of which only a part is read."""

from __future__ import annotations

from typing import BinaryIO

FIRST_BYTES = 1 << 16
"""How much of a file is read at once to see its first rows: a few hundred of them, and hardly dearer than opening it."""


SIDE_BY_SIDE_BYTES = 1 << 20
"""How much is read at once of files that are open beside others: what is decoded of all of them is in memory, a block of
4 MiB with 17 MB."""


class _Part:
    """What readers of text call of a stream; everything is the underlying stream's."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def tell(self) -> int:
        return self._stream.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    @property
    def closed(self) -> bool:
        return self._stream.closed

    def close(self) -> None:
        self._stream.close()


class ShortReads(_Part):
    """Gives at most `read_bytes` at once, so that a reader of blocks decodes small ones."""

    def __init__(self, stream: BinaryIO, read_bytes: int) -> None:
        super().__init__(stream)
        self._read_bytes = read_bytes

    def read(self, size: int = -1) -> bytes:
        return self._stream.read(self._read_bytes if size < 0 else min(size, self._read_bytes))


class FirstBytes(_Part):
    """Ends after `size` bytes, however much has been added to the file since it was found complete."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        super().__init__(stream)
        self._left = size

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data
