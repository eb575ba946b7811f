"""The rows of a job whose JobManager runs in another process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa

from sqlstream.errors import InternalError
from sqlstream.runtime.net.channels import ChannelClosed
from sqlstream.runtime.net.results import ResultStore

logger = logging.getLogger(__name__)

BYTES_AHEAD_MAX = 4 * 1024 * 1024
"""Rows of a query that are read before the reader takes them, and one batch."""

_JOB = "job"
"""The only job of the store of one RemoteResults."""


class RemoteResults:
    """The rows of one job, read on a thread that starts with the first call. Implements `JobResults`.

    State: rows up to BYTES_AHEAD_MAX and one batch; the JobManager keeps the others. When the connection breaks, the rows end;
    the job's status tells why. Any other failure to read them is raised behind the rows before it, as InternalError."""

    def __init__(self, read: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self._read = read
        self._store = ResultStore(BYTES_AHEAD_MAX, lambda job_id, lines, is_error: None)
        self._store.open(_JOB)
        self._rows = self._store.reader(_JOB)
        self._lock = threading.Lock()
        self._is_started = False
        self._error: InternalError | None = None

    @property
    def is_ended(self) -> bool:
        return self._rows.is_ended

    @property
    def unread_bytes(self) -> int:
        return self._rows.unread_bytes

    def poll(self) -> pa.RecordBatch | None:
        self._start()
        batch = self._rows.poll()
        if batch is None:
            self._raise_error()
        return batch

    def when_ready(self, callback: Callable[[], None]) -> None:
        self._start()
        self._rows.when_ready(callback)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._start()
        yield from self._rows
        self._raise_error()

    def close(self) -> None:
        self._rows.close()

    def _raise_error(self) -> None:
        if self._error is not None and self.is_ended:
            raise self._error

    def _start(self) -> None:
        with self._lock:
            if self._is_started:
                return
            self._is_started = True
        threading.Thread(target=self._read_all, name="read-results", daemon=True).start()

    def _read_all(self) -> None:
        try:
            for batch in self._read():
                self._store.put_rows(_JOB, 0, batch, lambda: False)
        except (ChannelClosed, pa.ArrowException, OSError):
            # The reader has left, or the rows end too early: whoever reads them asks for the job's status next.
            pass
        except Exception as error:  # a thread's boundary: the reader raises it
            logger.exception("the rows of a job cannot be read")
            self._error = InternalError(f"the rows of the job cannot be read: {error}")
        finally:
            self._store.close(_JOB)
