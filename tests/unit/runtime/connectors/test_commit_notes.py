"""Notes of commits stay when jobs have ended, and go after a year."""

from __future__ import annotations

import os
import time
from pathlib import Path

from sqlstream.runtime.connectors.staged_rows import JOURNAL_DAYS, CommitNote, remove_staging
from sqlstream.runtime.host.files import LocalFiles

FILES = LocalFiles()


def test_a_note_is_that_of_its_sink_and_job(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    note = CommitNote.of(table, "job", "sink")
    assert note.checkpoint_id(FILES) == -1
    for number in (3, 2**63 - 1):
        note.write(number, FILES)
        assert CommitNote.of(table, "job", "sink").checkpoint_id(FILES) == number
    for job_id, sink in (("job", "other"), ("other", "sink")):
        assert CommitNote.of(table, job_id, sink).checkpoint_id(FILES) == -1
    remove_staging(table, "job", FILES)
    assert note.checkpoint_id(FILES) == 2**63 - 1


def test_a_note_that_is_damaged_says_nothing(tmp_path: Path) -> None:
    note = CommitNote.of(str(tmp_path / "t"), "job", "sink")
    note.write(3, FILES)
    Path(note.path).write_bytes(b"x")
    assert note.checkpoint_id(FILES) == -1


def test_the_first_note_of_a_sink_removes_those_that_are_a_year_old(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    old, young, new = (CommitNote.of(table, job_id, "sink") for job_id in "abc")
    for note, days in ((old, JOURNAL_DAYS + 1), (young, JOURNAL_DAYS - 1)):
        note.write(1, FILES)
        at = time.time() - days * 86_400
        os.utime(note.path, (at, at))
    new.write(1, FILES)
    assert [note.checkpoint_id(FILES) for note in (old, young, new)] == [-1, 1, 1]
