"""Streams of text files of which only a part is read."""

from __future__ import annotations

from typing import BinaryIO

FIRST_BYTES = 1 << 16
"""Bytes read at once to decode a file's first rows: a few hundred rows, at hardly more cost than opening the file."""


SIDE_BY_SIDE_BYTES = 1 << 20
"""Bytes read at once of a file when others are open too: the decoded block of each is in memory, and one of 4 MiB takes
17 MB."""


class _Part:
    """Forwards the methods that readers of text call to the underlying stream."""

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
