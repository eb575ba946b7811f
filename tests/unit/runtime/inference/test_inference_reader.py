"""Inference as the source of a task."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa

from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.inference.file_inference import InferenceReader
from sqlstream.specs import InferTableSpec
from sqlstream.specs.source import InferenceAnswer
from sqlstream.spi.connector import SourceStatus

TIMEOUT_S = 60


def read(options: dict[str, str], files: Any = None) -> InferenceAnswer:
    reader = InferenceReader(InferTableSpec({"connector": "filesystem", **options}), files or LocalFiles())
    polled, deadline_s = reader.poll(), time.monotonic() + TIMEOUT_S
    while polled is SourceStatus.NOTHING_YET and time.monotonic() < deadline_s:
        polled = reader.poll()
    assert isinstance(polled, pa.RecordBatch)
    assert reader.poll() is SourceStatus.END
    reader.close()
    return msgspec.json.decode(polled.column(0)[0].as_py(), type=InferenceAnswer)


def test_the_answer_has_the_format_and_the_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,s\n1,x\n")
    found = read({"path": str(tmp_path / "a.csv")})
    assert (found.format, found.error) == ("csv", None)
    assert found.table is not None
    assert [(c.name, str(c.type)) for c in found.table.columns] == [("n", "BIGINT"), ("s", "STRING")]
    asked = read({"path": str(tmp_path / "a.csv"), "format": "csv", "csv.header": "false"}).table
    assert asked is not None
    assert [c.name for c in asked.columns] == ["column0", "column1"]


def test_an_error_is_an_answer_unless_only_the_format_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[1, 2]\n")
    path = {"path": str(tmp_path / "a.json")}
    assert read(path) == InferenceAnswer("json")
    refused = read({**path, "format": "json"}).error
    assert refused is not None
    assert (refused.code, refused.message.endswith("it begins with a JSON array")) == ("SS5024", True)
    missing = read({"path": str(tmp_path / "b.csv")}).error
    assert missing is not None
    assert missing.code == "SS5002"


class SlowFiles(LocalFiles):
    """A disk that answers when it is let."""

    def __init__(self) -> None:
        self.is_let = threading.Event()
        self.opened: list[str] = []

    def open_read(self, path: str) -> BinaryIO:
        self.opened.append(path)
        self.is_let.wait()
        return super().open_read(path)


def test_a_slow_disk_holds_up_neither_the_task_nor_its_end(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("n\n1\n")
    files = SlowFiles()
    reader = InferenceReader(InferTableSpec({"connector": "filesystem", "path": str(tmp_path)}), files)
    assert reader.poll() is SourceStatus.NOTHING_YET
    reader.close()
    # Both have come back although the disk has not answered.
    (thread,) = (t for t in threading.enumerate() if t.name == "infer table")
    files.is_let.set()
    thread.join(TIMEOUT_S)
    # It was given up before the second file.
    assert (len(files.opened), thread.is_alive()) == (1, False)
