"""The beginning of a text file that may be growing."""

from __future__ import annotations

from typing import BinaryIO


class FirstBytes:
    """Ends after `size` bytes, however much has been added to the file since it was found complete. It has the methods that
    readers of text call; no state but the stream's and how many bytes are left."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._left = size

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data

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
