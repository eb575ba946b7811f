"""Messages in Avro's binary encoding as rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.formats.avro.decoder import REASONS, Program
from sqlstream.spi.format import DecodedMessages, MessageRequest, Rejected

_TEXT_BYTES_MAX = 200


class AvroMessages:
    """Each message is a row of one schema, whatever comes behind it; one without content has no row."""

    def __init__(self, request: MessageRequest, schema: Any) -> None:
        types = dict(zip(request.schema.names, request.schema.types, strict=True))
        self._program = Program(schema, {name: types[name] for name in request.columns})

    def decode(self, messages: pa.Array) -> DecodedMessages:
        found = decoded(self._program, messages, np.arange(len(messages)))
        return found if found.batch.num_rows < len(messages) else found._replace(owners=None)


def decoded(
    program: Program, messages: pa.Array, places: np.ndarray[Any, Any], header_bytes: int = 0
) -> DecodedMessages:
    """The rows of messages at these places among others, each behind a header."""
    counts = np.full(len(messages), -1)
    if messages.null_count:
        counts[np.flatnonzero(messages.is_null().to_numpy(zero_copy_only=False))] = 0
        messages = pc.fill_null(messages, b"")
    found = program.decoded(messages, counts, header_bytes)
    rejected = [
        Rejected(int(places[m]), REASONS[int(reason)], messages[m].as_py()[:_TEXT_BYTES_MAX].hex(" "))
        for m, reason in found.rejected.tolist()
    ]
    return DecodedMessages(found.batch, places[found.owners], rejected)
