"""What a database notes of the commits of its tables: the last checkpoint of each writer. Its rows are keys of committables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sqlstream.runtime.connectors.sql_filters import text
from sqlstream.spi.committable import Committable

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
