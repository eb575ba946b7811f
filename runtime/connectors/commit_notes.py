"""What a database notes of the commits of its tables: the last checkpoint of each writer. Its rows are keys of committables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runtime.connectors.sql_filters import text
from sqlstream.spi.committable import Committable

JOURNAL = "sqlstream_commits"
"""A table beside the written one."""

JOURNAL_DAYS = 365
"""So long a savepoint can be gone on from whose commit is then repeated."""


def find_notes(journal: str, writers: Sequence[Committable]) -> str:
    """The query for what is noted of the writers of these committables. Committables of a writer are committed in the order of
    their checkpoints, so that its newest one stands for all."""
    return f"SELECT writer FROM {journal} WHERE {_of(writers)}"


def not_noted(writers: Sequence[Committable], notes: Iterable[str]) -> list[Committable]:
    """The committables whose rows are not in."""
    newest: dict[str, int] = {}
    for key in notes:
        writer_id, _, checkpoint_id = key.rpartition("/")
        newest[writer_id] = max(newest.get(writer_id, 0), int(checkpoint_id))
    return [w for w in writers if w.checkpoint_id > newest.get(w.writer_id, -1)]


def forget_notes(journal: str, writers: Sequence[Committable]) -> str:
    """The statement that makes place for the newest notes of these writers."""
    return f"DELETE FROM {journal} WHERE {_of(writers)}"


def note(journal: str, writers: Sequence[Committable], now: str) -> str:
    """The statement that notes the newest committable of each writer; `now` is the time in SQL."""
    newest: dict[str, Committable] = {}
    for writer in writers:
        known = newest.get(writer.writer_id, writer)
        newest[writer.writer_id] = max(known, writer, key=lambda c: c.checkpoint_id)
    return f"INSERT INTO {journal} VALUES {', '.join(f'({text(w.key)}, {now})' for w in newest.values())}"


def _of(writers: Sequence[Committable]) -> str:
    # Ids of writers are hexadecimal: they hold nothing that LIKE reads otherwise.
    ids = dict.fromkeys(w.writer_id for w in writers)
    return " OR ".join(f"writer LIKE {text(f'{writer_id}/%')}" for writer_id in ids)
