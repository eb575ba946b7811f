"""The first lines of text files, decompressed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import UserError
from sqlstream.runtime.formats.blocks import (
    UTF_16_HINT,
    UTF_16_MARKS,
    decompressed,
    refuse_compressed,
    undecompressible,
)
from sqlstream.runtime.host.files import file_error
from sqlstream.spi.files import FileStatus
from sqlstream.types import LogicalType, TypeRoot

SAMPLE_LINES = 20_480
"""As many as DuckDB samples, of all files together."""

SAMPLE_BYTES = 8 << 20
"""Bound on the sample of all files together."""

FILES_MAX = 32
"""So many files are looked at, the first ones by their paths, as DuckDB does. The others have to fit when they are read."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_samples(found: list[FileStatus], files: Any) -> list[tuple[str, bytes]]:
    """The paths of those files that hold anything, each with whole lines of its beginning. UserError SS5024 when none does."""
    looked_at = found[:FILES_MAX]
    samples = []
    for status in looked_at:
        check_not_given_up()
        sample = _sample(status.path, files, SAMPLE_BYTES // len(looked_at), SAMPLE_LINES // len(looked_at))
        if sample.strip():
            samples.append((status.path, sample))
    if not samples:
        reason = "it is empty" if len(looked_at) == 1 else "its files are empty"
        raise cannot_infer(found[0].path, reason)
    return samples


def _sample(path: str, files: Any, bytes_max: int, lines_max: int) -> bytes:
    with files.open_read(path) as file:
        stream = decompressed(file, path)
        data = b""
        try:
            while len(data) <= bytes_max and (chunk := stream.read(min(1 << 20, bytes_max + 1 - len(data)))):
                data += bytes(chunk)
        except OSError as error:
            if error.errno is None:
                raise undecompressible(path, error) from error
            raise file_error("read", path, error) from error
    refuse_compressed(data, path)
    if data.startswith(UTF_16_MARKS):
        raise cannot_infer(path, "it is text in UTF-16", UTF_16_HINT)
    data = data.removeprefix(_BYTE_ORDER_MARK)
    if len(data) > bytes_max:
        data = _whole_lines(data[:bytes_max])
        if not data:
            raise cannot_infer(path, f"its first line is longer than {bytes_max} bytes")
    lines = _first_lines(data, lines_max)
    try:
        lines.decode()
    except UnicodeDecodeError as error:
        hint = "convert it, as iconv -f LATIN1 -t UTF-8 does"
        raise cannot_infer(path, "it is no text in UTF-8", hint) from error
    return lines


def _first_lines(text: bytes, count: int) -> bytes:
    end = -1
    for _ in range(count):
        end = text.find(b"\n", end + 1)
        if end < 0:
            return text
    return text if end + 1 == len(text) else _whole_lines(text[: end + 1])


def _whole_lines(text: bytes) -> bytes:
    """The text up to a line end at which no quote is open, if there is one: a quoted value may hold line ends."""
    end = text.rfind(b"\n") + 1
    if text.count(b'"', 0, end) % 2:
        end = text.rfind(b"\n", 0, text.rfind(b'"', 0, end)) + 1 or end
    return text[:end]


# The two errors of inference.


DECLARE = "declare the table with CREATE TABLE and its columns"


def cannot_infer(path: str, reason: str, hint: str = DECLARE, detail: str = "") -> UserError:
    return UserError("SS5024", f'no table can be inferred from "{path}": {reason}', hint=hint, detail=detail)


def do_not_fit(first: str, other: str, reason: str, detail: str = "") -> UserError:
    """Two files of which no one table can be made."""
    return UserError("SS5025", f'"{other}" does not fit to "{first}": {reason}', detail=detail)


# Texts with more digits of a second than a type keeps.


_KEPT = {TypeRoot.TIME: 3, TypeRoot.TIMESTAMP: 6, TypeRoot.TIMESTAMP_LTZ: 6}


def are_cut(texts: pa.Array, t: LogicalType) -> bool:
    """Whether a text would lose a digit other than 0 as a value of a scalar type."""
    kept = _KEPT.get(t.root)
    if kept is None:
        return False
    return bool(
        pc.any(pc.match_substring_regex(texts, rf"[.]\d{{{max(kept, t.precision)}}}\d*[1-9]")).as_py()
    )
