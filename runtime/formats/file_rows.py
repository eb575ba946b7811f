"""The common part of the readers of all formats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from sqlstream.errors import UserError, did_you_mean
from sqlstream.spi.format import DecodedMessages, ReadRequest, Rejected
from sqlstream.terminal_text import shortened
from sqlstream.types import LogicalType


class FileRows(ABC):
    """A file's rows behind the first `skip_rows`, with the requested columns. State: the stream, and the rows that are still
    to be passed over."""

    def __init__(self, request: ReadRequest) -> None:
        self._stream = request.stream
        self._path = request.path
        schema = request.schema
        self._types: dict[str, LogicalType] = {c: schema.types[schema.index_of(c)] for c in request.columns}
        self._skip_rows = request.skip_rows

    @abstractmethod
    def decoded(self) -> Iterator[tuple[pa.RecordBatch, list[Rejected]]]:
        """All rows of the file. A format that can pass over rows without decoding them takes these from `_skip_rows`."""

    def batches(self) -> Iterator[tuple[pa.RecordBatch, list[Rejected]]]:
        for batch, rejected in self.decoded():
            skipped = min(self._skip_rows, batch.num_rows)
            self._skip_rows -= skipped
            yield batch.slice(skipped), rejected

    def close(self) -> None:
        self._stream.close()


# Batches without columns, which still count their rows.


def empty_columns(rows: int) -> pa.RecordBatch:
    """A batch of `rows` rows without columns, as `SELECT COUNT(*)` reads them."""
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))


def joined_rows(parts: list[DecodedMessages]) -> DecodedMessages:
    """The rows of several kinds of messages, in the order of these."""
    if len(parts) == 1:
        return parts[0]
    owners = np.concatenate([part.owners for part in parts])
    order = np.argsort(owners, kind="stable")
    batch = parts[0].batch
    if batch.num_columns:
        batch = pa.concat_batches([part.batch for part in parts]).take(pa.array(order))
    else:
        batch = empty_columns(len(order))
    rejected = sorted((r for part in parts for r in part.rejected), key=lambda r: r.line)
    return DecodedMessages(batch, owners[order], rejected)


# The errors for a file's undecodable rows and missing columns.


_TEXT_CHARACTERS_MAX = 200

VALUE_CHARACTERS_MAX = 60
"""How much of a value is shown within a message."""


def undecodable(path: str, row: Rejected, option: str = "", hint: str = "") -> UserError:
    """The error for a rejected row; `option` is the full key of the option that makes the format skip such rows, `hint` what is
    better than to skip them."""
    hint = hint or "correct the file"
    if option:
        hint += f", or set '{option}' = 'true' to count such rows and write them to a separate file"
    return UserError(
        "SS5011",
        f'could not decode line {row.line} of "{path}": {row.reason}',
        detail=f"the line is: {shortened(row.text, _TEXT_CHARACTERS_MAX)}",
        hint=hint,
    )


def absent_column(file: str, wanted: str, names: Sequence[str]) -> UserError:
    """The error for a missing column: `file` describes the file, which has the columns `names` but not `wanted`."""
    return UserError(
        "SS5012",
        f'{file} has no column "{wanted}"',
        detail=f"its columns are {', '.join(names)}",
        hint=did_you_mean(wanted, list(names)) or "name the table's columns as the file does",
    )


def quoted(value: object) -> str:
    """A value of the user's within a message, cut where it is long."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return f'"{shortened(text, VALUE_CHARACTERS_MAX)}"'
