"""The rows of one partition, as one attempt has sent them: kept until the partition's turn comes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO

import pyarrow as pa

from sqlstream.runtime.host.files import file_error

IN_MEMORY_BYTES_MAX = 4 * 1024 * 1024
"""What is larger waits in a file."""

_LENGTH_BYTES = 8


class PartitionSpool:
    """Messages in order, in memory or in a file without a name. State: these, until `close`."""

    def __init__(self, attempt: int, directory: str) -> None:
        self.attempt = attempt
        self.size = 0
        self._directory = directory
        self._schema: pa.Schema | None = None
        # Closed by `close`: it outlives this call.
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(  # noqa: SIM115
            IN_MEMORY_BYTES_MAX, dir=directory
        )

    def add(self, message: bytes) -> int:
        """Keep a message; returns by how many bytes the spool has grown. ExternalError SS5001 for a full disk."""
        if self._schema is None:
            self._schema = pa.ipc.read_schema(pa.py_buffer(message))
            return 0
        try:
            self._file.write(len(message).to_bytes(_LENGTH_BYTES, "big"))
            self._file.write(message)
        except OSError as error:
            raise file_error("keep rows of the result in", self._directory, error) from error
        self.size += len(message)
        return len(message)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches in order, once."""
        self._file.seek(0)
        while length := self._file.read(_LENGTH_BYTES):
            message = self._file.read(int.from_bytes(length, "big"))
            yield pa.ipc.read_record_batch(pa.py_buffer(message), self._schema)

    def close(self) -> None:
        self._file.close()
