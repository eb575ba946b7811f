"""Log files take turns, and the records of a job are found in them."""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from sqlstream.client.server.log_files import Cursor, LogFiles, LogFilesHandler, is_of_process, is_printed
from sqlstream.runtime.logs import PRINT_LOGGER, TaskLabels, formatter_of, of_job

JOB, OTHER = "a" * 32, "b" * 32


def record(message: str, job: str = "", error: Exception | None = None) -> logging.LogRecord:
    info = (type(error), error, None) if error is not None else None
    made = logging.LogRecord("runtime.x", logging.INFO, "", 0, message, (), info)  # type: ignore[arg-type]
    if job:
        made.labels = TaskLabels(job, "Source: bids", 1, 0)  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize("log_format", ["TEXT", "JSON"])
def test_the_records_of_a_job_are_read_with_all_their_lines(tmp_path: Path, log_format: str) -> None:
    files, formatter = LogFiles(str(tmp_path), 10_000, 5), formatter_of(log_format, "tm-1")
    files.write(f"{formatter.format(record('first', JOB, ValueError('two' + chr(10) + 'lines')))}\n")
    files.write(f"{formatter.format(record(f'about {JOB} by name only'))}\n")
    files.write(f"{formatter.format(record('another', OTHER))}\n")
    files.write("a native library says something\n")
    found, cursor = files.read(JOB)
    assert len(found) == 1
    assert ("first" in found[0], "lines" in found[0]) == (True, True)
    assert files.read(JOB, cursor) == ((), cursor)
    files.write(f"{formatter.format(record('last', JOB))}\n")
    found, _ = files.read(JOB, cursor)
    assert ("last" in found[0], len(found)) == (True, 1)


@pytest.mark.parametrize("log_format", ["TEXT", "JSON"])
def test_the_latest_records_of_a_process_and_of_print_tables_are_found(
    tmp_path: Path, log_format: str
) -> None:
    files = LogFiles(str(tmp_path), 300, 5)
    for process, name in (
        ("tm-1", "runtime.x"),
        ("server", PRINT_LOGGER),
        ("tm-11", "runtime.x"),
        ("tm-1", "tm-2"),
    ):
        made = record(f"of {process} in {name}")
        made.name = name
        files.write(f"{formatter_of(log_format, process).format(made)}\n")
    found = files.latest(lambda text: is_of_process(text, "tm-1")).splitlines()
    assert ["of tm-1 in runtime.x" in found[0], "of tm-1 in tm-2" in found[1], len(found)] == [True, True, 2]
    assert len(files.latest(lambda text: is_of_process(text, "tm-2"))) == 0
    assert f"of server in {PRINT_LOGGER}" in files.latest(is_printed)
    assert len(files.latest(is_printed).splitlines()) == 1


def test_full_files_make_room_for_others(tmp_path: Path) -> None:
    files, formatter = LogFiles(str(tmp_path), 400, 2), formatter_of("TEXT", "p")
    cursor = files.read(JOB)[1]
    for number in range(20):
        files.write(f"{formatter.format(record(f'number {number:02} {chr(46) * 40}', JOB))}\n")
    assert len(list(tmp_path.iterdir())) == 3
    assert all(p.stat().st_size <= 400 and p.stat().st_mode & 0o777 == 0o600 for p in tmp_path.iterdir())
    found, _ = files.read(JOB, cursor)
    assert "number 19" in found[-1]
    assert len(found) < 20
    again = LogFiles(str(tmp_path), 400, 2)
    again.write("number 20\n")
    assert again.read(JOB) == files.read(JOB)


def test_a_record_that_a_full_disk_has_cut_is_told_and_takes_no_other_along(tmp_path: Path) -> None:
    class NearlyFull(io.FileIO):
        room = 10

        def write(self, data: Any) -> int:
            taken, self.room = super().write(data[: self.room]), 1000
            return taken

    files = LogFiles(str(tmp_path), 10_000, 5)
    files._stream = NearlyFull(tmp_path / "sqlstream-000001.log", "ab")  # type: ignore[assignment]
    assert files.write("a record that is too long\n") is False
    assert files.write("the next\n") is True
    assert (tmp_path / "sqlstream-000001.log").read_text() == "a record t\nthe next\n"


def test_a_file_that_makes_room_while_it_is_looked_for_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LogFiles(str(tmp_path), 10, 1)
    for number in range(3):
        files.write(f"record {number} job={JOB}\n")
    monkeypatch.setattr(files, "_numbers", lambda: [1, 2, 3])
    assert [record[:8] for record in files.read(JOB)[0]] == ["record 1", "record 2"]
    assert files.latest(lambda text: "record" in text).count("\n") == 2


def test_a_half_written_record_is_left_for_the_next_look(tmp_path: Path) -> None:
    files = LogFiles(str(tmp_path), 10_000, 2)
    files.write(f"1 x job={JOB}\n2 y job={JOB} without an end")
    assert files.read(JOB)[0] == (f"1 x job={JOB}",)


def test_a_cursor_is_text_and_anything_else_is_none() -> None:
    assert Cursor.parse("2:30") == (2, 30)
    for text in ("", "2", "2:", "-1:3", "a:b"):
        with pytest.raises(ValueError, match=f"^{text}$"):
            Cursor.parse(text)


def test_records_go_to_the_file_and_to_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = LogFiles(str(tmp_path), 10_000, 2)
    handler = LogFilesHandler(files)
    handler.setFormatter(formatter_of("TEXT", "server"))
    log = logging.Logger("l")
    log.addHandler(handler)
    log.info("with 'password' = 'hush'", extra=of_job(JOB))
    (line,) = files.read(JOB)[0]
    assert line.endswith(f"l: with 'password' = '******' job={JOB}")
    handler.close()
    assert capsys.readouterr().err == f"{line}\n"


def test_a_standard_error_that_nobody_reads_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as reader, open(writing, "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stderr", full)
        handler = LogFilesHandler(LogFiles(str(tmp_path), 10_000_000, 1))
        # More than the pipe and the queue take, and nobody reads: a call that waited would hang.
        for number in range(3_000):
            handler.pass_on(f"{number} {'x' * 100}\n")
        kept = (tmp_path / "sqlstream-000001.log").read_text()
        assert len(kept.splitlines()) == 3_000
        drained = threading.Thread(target=lambda: reader.read(400_000), daemon=True)
        drained.start()
        handler.close()
        monkeypatch.undo()
        full.close()
        drained.join(60)
