"""Reads what Snappy has compressed: in its own frames, or in blocks as Hadoop's codec writes them."""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa

_FRAMES = b"\xff\x06\0\0sNaPpY"
_COMPRESSED, _PLAIN, _LAST_RESERVED = 0, 1, 0x7F
_CHECKSUM_BYTES = 4
_CHUNK_BYTES_MAX = 256 << 20


class SnappyStream:
    """The text piece by piece; checksums are not looked at. `read` raises OSError without `errno` where it is no such text.
    State: the position, and the text of a chunk that is not yet read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._has_frames: bool | None = None
        self._ahead = b""
        self._block_left = 0
        self._text = memoryview(b"")

    def read(self, size: int) -> bytes:
        parts, left = [], size
        while left:
            if not len(self._text):
                chunk = self._next()
                if chunk is None:
                    break
                self._text = memoryview(chunk)
            parts.append(self._text[:left])
            self._text = self._text[len(parts[-1]) :]
            left -= len(parts[-1])
        return b"".join(parts)

    def _next(self) -> bytes | None:
        if self._has_frames is None:
            self._ahead = self._stream.read(len(_FRAMES))
            self._has_frames = self._ahead == _FRAMES
        return self._frame() if self._has_frames else self._chunk()

    def _frame(self) -> bytes | None:
        while head := self._taken(4, may_end=True):
            kind, data = head[0], self._taken(int.from_bytes(head[1:], "little"))
            if kind == _COMPRESSED:
                return _decompressed(data[_CHECKSUM_BYTES:])
            if kind == _PLAIN:
                return data[_CHECKSUM_BYTES:]
            if kind <= _LAST_RESERVED:
                raise OSError("it has a chunk of an unknown kind")
        return None

    def _chunk(self) -> bytes | None:
        """Of a block, which says how long its text is, and has chunks that say how long they are."""
        while not self._block_left:
            head = self._taken(4, may_end=True)
            if not head:
                return None
            self._block_left = int.from_bytes(head, "big")
        length = int.from_bytes(self._taken(4), "big")
        if length > _CHUNK_BYTES_MAX:
            raise OSError("a chunk of it is too long")
        text = _decompressed(self._taken(length))
        if len(text) > self._block_left:
            raise OSError("a block of it is longer than it says")
        self._block_left -= len(text)
        return text

    def _taken(self, size: int, *, may_end: bool = False) -> bytes:
        """So many bytes; none at the end if it may be there."""
        found, self._ahead = self._ahead[:size], self._ahead[size:]
        while len(found) < size and (more := self._stream.read(size - len(found))):
            found += more
        if len(found) < size and not (may_end and not found):
            raise OSError("it ends within a chunk")
        return found


def _decompressed(data: bytes) -> bytes:
    """A chunk, which begins with the length of its text."""
    size = 0
    for place, byte in enumerate(data[:5]):
        size |= (byte & 127) << (7 * place)
        if byte < 128:
            break
    else:
        raise OSError("a chunk of it has no length")
    if size > _CHUNK_BYTES_MAX:
        raise OSError("a chunk of it is too long")
    try:
        return bytes(pa.decompress(data, size, "snappy", asbytes=True))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise OSError(str(error)) from error
