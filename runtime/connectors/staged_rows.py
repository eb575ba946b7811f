"""What sinks share that stage rows until their commit: hidden files beside the table, ids of writers, notes of commits."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from sqlstream.arrow import is_changelog, row_kinds, to_arrow_schema, without_row_kinds
from sqlstream.errors import ExternalError
from sqlstream.runtime.connectors.sql_filters import text
from sqlstream.runtime.host.files import file_error
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import ConnectorContext, OptionType
from sqlstream.spi.files import Files
from sqlstream.spi.table_options import option

KIND_COLUMN = "$kind"
_CHECKPOINT_DIGITS_MAX = 19


@dataclass(frozen=True)
class _OpenFile:
    path: str
    stream: BinaryIO
    writer: pa.RecordBatchWriter


def staging_option() -> Any:
    return option(
        "sink.staging-directory",
        OptionType.STRING,
        "Where rows wait for their checkpoint with `exactly-once`, as a path that all hosts of a cluster share;"
        " sqlstream/staging in the user's state directory unless it is given.",
    )


def staging_path(directory: str | None, name: str) -> str:
    """What directories of staged rows are named after where there is no database on disk."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    directory = directory or os.path.join(state, "sqlstream", "staging")
    return os.path.join(os.path.abspath(os.path.expanduser(directory)), name)


def staging_directory(path: str, job_id: str, writer_id: str) -> str:
    """Where a writer of a job keeps its rows until the commit: beside the database."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.staging-{job_id}-{writer_id}")


def remove_staging(path: str, job_id: str, files: Files) -> None:
    """Remove the rows of all writers of a job into the database at this path."""
    for directory in files.match_glob(staging_directory(glob.escape(path), job_id, "*")):
        files.remove(directory)


def remove_staged_by(path: str, job_id: str, writer_names: Sequence[str], files: Files) -> None:
    """Remove the rows of these writers into the database at this path."""
    for name in writer_names:
        files.remove(staging_directory(path, job_id, digits_of(name)[:12]))


class StagedRowsWriter:
    """Writes the rows in their order, with their kinds, to Arrow files in a directory of its own, one for each checkpoint.

    State: the open file. The first checkpoint has a file also when it has no rows, so that a table is made although none came."""

    def __init__(self, spec: SinkSpec, path: str, context: ConnectorContext) -> None:
        """`path` is the database's."""
        self._context = context
        self._id = new_writer_id(context)
        self._directory = staging_directory(path, context.job_id, self._id[:12])
        data = to_arrow_schema(spec.schema)
        self._schema = data.append(pa.field(KIND_COLUMN, pa.int8()))
        self._file_count = 0
        self._open: _OpenFile | None = self._start()

    def _start(self) -> _OpenFile:
        path = os.path.join(self._directory, f"rows-{self._file_count}.arrow")
        self._file_count += 1
        stream = self._context.files.open_write(path)
        return _OpenFile(path, stream, pa.ipc.new_file(stream, self._schema))

    def write(self, batch: pa.RecordBatch) -> None:
        if self._open is None:
            self._open = self._start()
        kinds = pa.array(row_kinds(batch), pa.int8())
        data = without_row_kinds(batch) if is_changelog(batch) else batch
        rows = pa.RecordBatch.from_arrays([*data.columns, kinds], schema=self._schema)
        with _errors_of(self._open.path):
            self._open.writer.write_batch(rows)

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        file = self._open
        if file is None:
            return []
        with _errors_of(file.path):
            file.writer.close()
            self._context.count("numBytesOut", file.stream.tell())
            file.stream.flush()
            self._context.files.sync(file.stream)
            file.stream.close()
        self._open = None
        job_id, subtask = self._context.job_id, self._context.subtask
        return [Committable(job_id, checkpoint_id, self._id, subtask, {"path": file.path})]

    def abort(self) -> None:
        if self._open is not None:
            self._open.stream.close()
            self._context.files.remove(self._open.path)
        self._context.files.remove_directory_if_empty(self._directory)


def remove_committed(checkpoint_id: int, committables: Sequence[Committable], files: Files) -> None:
    """Remove the rows of a commit that is complete. A writer that goes on needs its directory."""
    for committable in committables:
        path = committable.content["path"]
        files.remove(path)
        if checkpoint_id == LAST_CHECKPOINT_ID:
            files.remove_directory_if_empty(os.path.dirname(path))


def staged_rows(committable: Committable, files: Files) -> pa.Table:
    """The rows of a writer. ExternalError SS5066 when its file is gone or damaged."""
    path = committable.content["path"]
    if files.status(path) is None:
        raise _unusable(path, "the rows written there have vanished")
    try:
        rows = pa.ipc.open_file(files.map_read(path)).read_all()
        rows.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise _unusable(path, "the rows written there are damaged", str(error)) from error
    return rows


def _unusable(path: str, problem: str, detail: str = "") -> ExternalError:
    return ExternalError(
        "SS5066",
        f'could not commit "{path}": {problem}',
        detail=detail,
        hint="run the statement again, and let nothing change hidden files meanwhile",
    )


@contextlib.contextmanager
def _errors_of(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise file_error("write", path, error) from error


# The ids of writers, which the directories bear that they stage rows in.


def new_writer_id(context: ConnectorContext) -> str:
    """32 hexadecimal digits; those of its name, where it has one."""
    return digits_of(context.writer_name) if context.writer_name else uuid.uuid4().hex


def digits_of(writer_name: str) -> str:
    """
    >>> digits_of("a1/job-0-0-0/2")
    '238adb1118b9cd18f14a749f36210bf6'
    """
    return hashlib.sha256(writer_name.encode()).hexdigest()[:32]


# What is noted of the commits of sinks that keep no journal themselves.


@dataclass(frozen=True)
class CommitNote:
    """The last checkpoint of a sink that is committed, in a file that stays when its job has ended. It is written before the
    staged rows are removed: a commit may be repeated months later, when a server has forgotten what it knew of it."""

    directory: str
    name: str

    @staticmethod
    def of(path: str, job_id: str, sink: str) -> CommitNote:
        """`path` is the table's, `sink` the operator of the job."""
        parent, name = os.path.split(path)
        return CommitNote(os.path.join(parent, f".{name}.commits"), f"{job_id}-{digits_of(sink)[:12]}")

    @property
    def path(self) -> str:
        return os.path.join(self.directory, self.name)

    def checkpoint_id(self, files: Files) -> int:
        """-1 without a note."""
        if files.status(self.path) is None:
            return -1
        with files.open_read(self.path) as stream:
            noted = stream.read(_CHECKPOINT_DIGITS_MAX)
        return int(noted) if noted.isdigit() else -1

    def write(self, checkpoint_id: int, files: Files) -> None:
        """The first note of a sink removes those that are older than JOURNAL_DAYS."""
        if files.status(self.path) is None and files.status(self.directory) is not None:
            forgotten_ms = (time.time() - JOURNAL_DAYS * 86_400) * 1_000
            for noted in files.list_files(self.directory):
                if noted.modified_ms < forgotten_ms:
                    files.remove(noted.path)
        staged = os.path.join(self.directory, f".{self.name}")
        with _errors_of(self.path):
            with files.open_write(staged) as stream:
                stream.write(b"%d" % checkpoint_id)
                stream.flush()
                files.sync(stream)
            files.publish(staged, self.path)


# What a database notes of the commits of its tables: the last checkpoint of each writer. Its rows are keys of
# committables.


JOURNAL = "sqlstream_commits"
"""A table beside the written one."""

JOURNAL_DAYS = 365
"""So long a savepoint can be gone on from whose commit is then repeated."""


@dataclass(frozen=True)
class CommitJournal:
    """The table as one database has it: its name there, and in its dialect the types of both columns, the time and the time
    JOURNAL_DAYS ago. No state."""

    name: str
    text_type: str
    time_type: str
    now: str
    forgotten_before: str

    def write_once(
        self,
        writers: Sequence[Committable],
        run: Callable[[str], object],
        texts: Callable[[str], list[str]],
        write: Callable[[list[Committable]], None],
    ) -> None:
        """In the caller's transaction: `write` the committables whose rows are not in, and note them. `run` carries out a
        statement, `texts` gives the first column of a query's rows."""
        columns = f"writer {self.text_type} PRIMARY KEY, committed_at {self.time_type}"
        run(f"CREATE TABLE IF NOT EXISTS {self.name} ({columns})")
        # Committables of a writer are committed in the order of their checkpoints: its newest one stands for all.
        missing = _not_noted(writers, texts(f"SELECT writer FROM {self.name} WHERE {_of(writers)}"))
        if not missing:
            return
        write(missing)
        run(f"DELETE FROM {self.name} WHERE committed_at < {self.forgotten_before}")
        run(f"DELETE FROM {self.name} WHERE {_of(missing)}")
        run(f"INSERT INTO {self.name} VALUES {self._rows(missing)}")

    def _rows(self, writers: Sequence[Committable]) -> str:
        """The newest committable of each writer."""
        newest = {w.writer_id: w for w in sorted(writers, key=lambda w: w.checkpoint_id)}
        return ", ".join(f"({text(w.key)}, {self.now})" for w in newest.values())


def _not_noted(writers: Sequence[Committable], notes: Iterable[str]) -> list[Committable]:
    newest: dict[str, int] = {}
    for key in notes:
        writer_id, _, checkpoint_id = key.rpartition("/")
        # Anybody who may write the database can have put other words there.
        if checkpoint_id.isdecimal():
            newest[writer_id] = max(newest.get(writer_id, 0), int(checkpoint_id))
    return [w for w in writers if w.checkpoint_id > newest.get(w.writer_id, -1)]


def _of(writers: Sequence[Committable]) -> str:
    # Ids of writers are hexadecimal: they hold nothing that LIKE reads otherwise.
    ids = dict.fromkeys(w.writer_id for w in writers)
    return " OR ".join(f"writer LIKE {text(f'{writer_id}/%')}" for writer_id in ids)
