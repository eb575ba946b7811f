"""The server's log on disk: numbered files in turn, and the records of one job read out of them."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

import msgspec

from sqlstream.client.server.kept_file import make_private_directory
from sqlstream.runtime.host.whole_files import FILE_MODE
from sqlstream.runtime.logs import PRINT_LOGGER, RECORD_CHARACTERS_MAX, LogLine, of_job

printed = logging.getLogger(PRINT_LOGGER)

READ_BYTES_MAX = 1024 * 1024
"""How much one call of `read` returns at most."""

ECHO_TEXTS_MAX = 10_000
"""How many records may wait to be written to standard error."""

ECHO_DRAIN_S = 1.0

_CURSOR_CHARACTERS_MAX = 30

_decode = msgspec.json.Decoder(LogLine).decode


class Cursor(NamedTuple):
    """A place in the log: the number of a file and a byte in it. As text `number:offset`."""

    number: int
    offset: int

    def __str__(self) -> str:
        return f"{self.number}:{self.offset}"

    @staticmethod
    def parse(text: str) -> Cursor:
        """ValueError for what is no cursor.

        >>> str(Cursor.parse("3:100"))
        '3:100'
        """
        number, separator, offset = text.partition(":")
        is_cursor = separator and number.isdecimal() and offset.isdecimal()
        if not is_cursor or len(text) > _CURSOR_CHARACTERS_MAX:
            raise ValueError(text)
        return Cursor(int(number), int(offset))


class LogFiles:
    """Appends records to the newest of the files `<name>-<number>.log`, and begins another when it is full; of the full
    ones the newest `files_max` stay. Thread-safe. State: the open file, its size, and whether its last record is cut.

    A log that cannot be written (a full disk) must not stop the server: the record goes to standard error alone."""

    def __init__(self, directory: str, file_bytes_max: int, files_max: int, name: str = "sqlstream") -> None:
        make_private_directory(directory)
        self._name = name
        self._file_name = re.compile(rf"{name}-(\d{{6,}})\.log")
        self._directory = directory
        self._file_bytes_max = file_bytes_max
        self._files_max = files_max
        self._lock = threading.Lock()
        self._number = max(self._numbers(), default=1)
        self._stream = self._open()
        self._size = os.fstat(self._stream.fileno()).st_size
        self._is_cut = False

    def write(self, text: str) -> bool:
        """Append whole records, each with its line end; returns whether they could be written."""
        data = text.encode("utf-8", "replace")
        with self._lock:
            try:
                if self._size and self._size + len(data) > self._file_bytes_max:
                    self._turn()
                if self._is_cut:
                    # Of the record before it the disk had room for a part: it does not take this one along.
                    data = b"\n" + data
                written = self._stream.write(data)
                self._size += written
                self._is_cut = written < len(data)
            except (OSError, ValueError):
                # ValueError: closed.
                return False
            return not self._is_cut

    def close(self) -> None:
        with self._lock:
            self._stream.close()

    def read(self, job_id: str, after: Cursor | None = None) -> tuple[tuple[str, ...], Cursor]:
        """Records that are labelled with the job, from the oldest or behind `after`, at most READ_BYTES_MAX of them; with the
        place where the next call continues. A cursor into a file that is gone continues with the oldest that is there."""
        found: list[str] = []
        size = 0
        numbers = sorted(n for n in self._numbers() if after is None or n >= after.number)
        place = after or Cursor(numbers[0] if numbers else self._number, 0)
        for number in numbers:
            offset = place.offset if number == place.number else 0
            for record, end in self._records(number, offset):
                place = Cursor(number, end)
                if is_about(record, job_id):
                    found.append(record)
                    size += len(record)
                    if size >= READ_BYTES_MAX:
                        return tuple(found), place
        return tuple(found), place

    def latest(self, is_wanted: Callable[[str], bool]) -> str:
        """The newest of the records that are wanted, at most READ_BYTES_MAX of them, oldest first; each with its line end."""
        parts: list[str] = []
        size = 0
        for number in sorted(self._numbers(), reverse=True):
            found = [f"{record}\n" for record, _ in self._records(number, 0) if is_wanted(record)]
            parts.append("".join(found))
            size += len(parts[-1])
            if size >= READ_BYTES_MAX:
                break
        text = "".join(reversed(parts))
        # A record that is cut at its beginning is left out.
        return text if len(text) <= READ_BYTES_MAX else text[-READ_BYTES_MAX:].partition("\n")[2]

    def _records(self, number: int, offset: int) -> Iterator[tuple[str, int]]:
        """Whole records of a file and the byte behind each: indented lines belong to the one before."""
        with contextlib.ExitStack() as opened:
            try:
                stream = opened.enter_context(open(self._path(number), "rb"))
            except FileNotFoundError:
                # It has made room for another one.
                return
            stream.seek(offset)
            lines: list[bytes] = []
            end = offset
            for line in stream:
                if not line.endswith(b"\n"):
                    break
                if lines and not line.startswith(b"  "):
                    yield b"".join(lines).decode("utf-8", "replace").rstrip("\n"), end
                    lines = []
                lines.append(line)
                end += len(line)
            if lines:
                yield b"".join(lines).decode("utf-8", "replace").rstrip("\n"), end

    def _turn(self) -> None:
        self._stream.close()
        self._number += 1
        self._stream, self._size = self._open(), 0
        for number in sorted(self._numbers())[: -(self._files_max + 1)]:
            os.unlink(self._path(number))

    def _open(self) -> BinaryIO:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return os.fdopen(os.open(self._path(self._number), flags, FILE_MODE), "ab", buffering=0)

    def _path(self, number: int) -> str:
        return os.path.join(self._directory, f"{self._name}-{number:06}.log")

    def _numbers(self) -> list[int]:
        return [int(m[1]) for name in os.listdir(self._directory) if (m := self._file_name.fullmatch(name))]


def is_about(record: str, job_id: str) -> bool:
    """Whether a record, as JSON or text, is labelled with the job."""
    if job_id not in record:
        return False
    if record.startswith("{"):
        return _field(record, "job") == job_id
    return f" job={job_id}" in record.partition("\n")[0]


def is_of_process(record: str, process: str) -> bool:
    """Whether a process of this name wrote the record, JSON or text."""
    if process not in record:
        return False
    if record.startswith("{"):
        return _field(record, "process") == process
    return record.split(maxsplit=3)[2:3] == [process]


def is_printed(record: str) -> bool:
    """Whether the record holds rows of a print table."""
    if record.startswith("{"):
        return _field(record, "logger") == PRINT_LOGGER
    return f"] {PRINT_LOGGER}: " in record.partition("\n")[0]


def _field(record: str, name: str) -> str:
    """Of a record as JSON; empty for what only looks like one."""
    try:
        found: str = getattr(_decode(record.encode()), name)
    except msgspec.DecodeError:
        return ""
    return found


def log_printed_lines(job_id: str, lines: list[str], is_error: bool) -> None:
    """Log lines of a print table in records of several; a longer line is cut as all records are."""
    level = logging.WARNING if is_error else logging.INFO
    for text in _texts(lines):
        printed.log(level, "%s", text, extra=of_job(job_id))


def _texts(lines: list[str]) -> Iterator[str]:
    held: list[str] = []
    size = 0
    for line in lines:
        if held and size + len(line) >= RECORD_CHARACTERS_MAX:
            yield "\n".join(held)
            held, size = [], 0
        held.append(line)
        size += len(line) + 1
    if held:
        yield "\n".join(held)


class LogFilesHandler(logging.Handler):
    """Records of this process into the files and to standard error."""

    def __init__(self, files: LogFiles) -> None:
        super().__init__()
        self._files = files
        self._echo = StandardError()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.pass_on(f"{self.format(record)}\n")
        except Exception:  # logging's own convention: a faulty record must not stop what it is about
            self.handleError(record)

    def pass_on(self, text: str) -> None:
        """A record of a child process, formatted there."""
        self._files.write(text)
        self._echo.write(text)

    def close(self) -> None:
        self._echo.drain()
        super().close()


class StandardError:
    """Writes texts to standard error on a thread of its own: a pipe that nobody reads stops neither the JobManager nor the
    event loop. State: at most ECHO_TEXTS_MAX texts; those beyond are in the file alone."""

    def __init__(self) -> None:
        self._texts: queue.Queue[str | threading.Event] = queue.Queue(ECHO_TEXTS_MAX)
        threading.Thread(target=self._write_all, name="echo-log", daemon=True).start()

    def write(self, text: str) -> None:
        with contextlib.suppress(queue.Full):
            self._texts.put_nowait(text)

    def drain(self) -> None:
        """Wait until what came before is written, for at most ECHO_DRAIN_S."""
        written = threading.Event()
        with contextlib.suppress(queue.Full):
            self._texts.put_nowait(written)
            written.wait(ECHO_DRAIN_S)

    def _write_all(self) -> None:
        while True:
            text = self._texts.get()
            if isinstance(text, threading.Event):
                text.set()
                continue
            # Nobody reads it any more (`| head`); the file has it.
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(text)
                sys.stderr.flush()
