"""Messages in a binary encoding as rows, by programs that kernels run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.formats.decoded_columns import Rows
from sqlstream.spi.format import DecodedMessages, Rejected

_TEXT_BYTES_MAX = 200


class MessageProgram(Protocol):
    """What reads messages of one schema."""

    @property
    def reasons(self) -> Mapping[int, str]:
        """Why a message is rejected, by what the kernel says of it."""

    def of_messages(self, messages: pa.Array, is_there: np.ndarray[Any, Any], header_bytes: int = 0) -> Rows:
        """The rows of messages (a binary array without NULLs) of which some are there, each behind a header."""


class BinaryMessages:
    """Each message is a row of one schema, whatever comes behind it; one without content has no row."""

    def __init__(self, program: MessageProgram) -> None:
        self._program = program

    def decode(self, messages: pa.Array) -> DecodedMessages:
        found = decoded(self._program, messages, np.arange(len(messages)))
        return found if found.batch.num_rows < len(messages) else found._replace(owners=None)


def decoded(
    program: MessageProgram, messages: pa.Array, places: np.ndarray[Any, Any], header_bytes: int = 0
) -> DecodedMessages:
    """The rows of messages at these places among others, each behind a header."""
    is_there = np.ones(len(messages), dtype=bool)
    if messages.null_count:
        is_there = messages.is_valid().to_numpy(zero_copy_only=False)
        messages = pc.fill_null(messages, b"")
    found = program.of_messages(messages, is_there, header_bytes)
    rejected = [
        rejected_message(messages, m, int(places[m]), program.reasons[int(reason)])
        for m, reason in found.rejected.tolist()
    ]
    return DecodedMessages(found.batch, places[found.owners], rejected)


def rejected_message(messages: pa.Array, m: int, place: int, reason: str) -> Rejected:
    """Message `m`, which stands at a place among others."""
    return Rejected(place, reason, messages[m].as_py()[:_TEXT_BYTES_MAX].hex(" "))
