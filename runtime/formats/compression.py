"""Reads compressed files as their text; the suffix of the name selects the codec, as in Flink."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

from sqlstream.errors import UserError

_ARROW_CODECS = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".deflate": "gzip",  # Arrow's codec takes either header.
    ".bz2": "bz2",
    ".zst": "zstd",
}
_BEGINNINGS = {
    b"\x1f\x8b\x08": ("gzip", ".gz"),
    b"BZh91AY&SY": ("bzip2", ".bz2"),
    b"\xfd7zXZ\0": ("xz", ".xz"),
    b"\x28\xb5\x2f\xfd": ("Zstandard", ".zst"),
    b"PK\x03\x04": ("zip", ""),
}


def is_compressed(path: str) -> bool:
    """Whether a file of that name is read as compressed text."""
    return os.path.splitext(path)[1].lower() in (".xz", *_ARROW_CODECS)


def decompressed(stream: BinaryIO, path: str) -> BinaryIO:
    """The text of a file piece by piece; `read` raises OSError without `errno` where it does not match its suffix."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix == ".xz":
        return _Xz(stream)  # type: ignore[return-value]
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
