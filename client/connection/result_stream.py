"""A result's bytes as they come from a server → its head, its batches, and how it ended. Nothing is read from a network here."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.client.connection.arrow_stream import ArrowStreamDecoder
from sqlstream.client.connection.wire import read_ending, read_head
from sqlstream.client.following.remarks import Remark
from sqlstream.client.http_api.media import METADATA_KEY
from sqlstream.client.sessions.outcomes import ResultFacts
from sqlstream.errors import ExternalError


class ResultStream:
    """Feed it the pieces of `…/result/stream?rowFormat=ARROW`; when there are no more, call `finish`.

    State: the head once it has come, batches that were not taken, and `remarks`, which come with the end.
    """

    def __init__(self, url: str) -> None:
        self.head: ResultFacts | None = None
        self.remarks: list[Remark] = []
        self._url = url
        self._decoder = ArrowStreamDecoder()
        self._batches: list[pa.RecordBatch] = []

    def feed(self, data: bytes) -> None:
        """Accept a piece. ExternalError SS5041 when it is no result."""
        try:
            batches = self._decoder.feed(data)
            if self.head is None and self._decoder.schema is not None:
                self.head = read_head(self._decoder.schema)
        except (ValueError, pa.ArrowInvalid) as error:
            raise ExternalError(
                "SS5041",
                f"{self._url} answered with no result: {error}",
                hint="check that the URL is that of a server of the same version",
            ) from error
        self._batches += [batch for batch in batches if batch.num_rows]

    def take(self) -> list[pa.RecordBatch]:
        """The batches that have come since the last call, without metadata."""
        taken, self._batches = self._batches, []
        return [batch.replace_schema_metadata(None) for batch in taken]

    def read_ending(self) -> None:
        """Read what the last batch says of the end, if it does. JobError when the job has not finished: its stream is cut off
        after that batch, so that no reader takes it for a whole one."""
        if METADATA_KEY in self._decoder.end_metadata:
            self.remarks = read_ending(self._decoder.end_metadata)

    def finish(self) -> None:
        """No more bytes come. JobError when the job has not finished, ExternalError SS5043 when the stream is not whole."""
        self.read_ending()
        if not self._decoder.is_ended:
            raise ExternalError(
                "SS5043",
                f"the connection to {self._url} was lost within a result",
                hint="see whether the server still runs, then send the statement again",
            )
