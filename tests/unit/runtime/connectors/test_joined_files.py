"""Small files of a format of another package become one; its own reader and writer are all that is known of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.files.compaction import FileJoiner
from sqlstream.runtime.connectors.files.file_options import check_files
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.spi.format import FormatDescriptor, ReadRequest, Rejected

SCHEMA = Schema.of(("v", sql.INT), ("s", sql.STRING))


class FramesReader:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def batches(self) -> Iterator[tuple[pa.RecordBatch, list[Rejected]]]:
        for batch in pa.ipc.open_stream(self._stream):
            yield batch, []

    def close(self) -> None:
        self._stream.close()


class FramesWriter:
    def __init__(self, stream: BinaryIO, schema: Schema) -> None:
        self._writer = pa.ipc.new_stream(stream, to_arrow_schema(schema))

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class Frames:
    """Arrow's stream of batches: neither text nor Parquet."""

    def __init__(self, sink_mode: ChangelogMode = ChangelogMode.INSERT_ONLY) -> None:
        self.descriptor = FormatDescriptor("frames", (), ".frames", sink_mode=sink_mode)

    def reader(self, request: ReadRequest) -> FramesReader:
        return FramesReader(request.stream)

    def writer(self, stream: BinaryIO, schema: Schema, options: dict[str, str]) -> FramesWriter:
        return FramesWriter(stream, schema)

    def validate(self, schema: Schema, options: dict[str, str]) -> None:
        """Every type is carried."""


def rows(*values: int) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {"v": list(values), "s": [str(v) for v in values]}
    return pa.RecordBatch.from_pydict(columns, schema=to_arrow_schema(SCHEMA))


def test_files_of_a_binary_format_are_joined_by_its_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlstream.runtime.connectors.files.compaction.format_of", lambda name: Frames())
    parts = [str(tmp_path / f"part-{number}") for number in range(3)]
    for part, values in zip(parts, [(1, 2), (), (3,)], strict=True):
        with open(part, "wb") as stream:
            frames = FramesWriter(stream, SCHEMA)
            frames.write(rows(*values))
            frames.close()
    joined = str(tmp_path / "joined")
    FileJoiner(SCHEMA, {"format": "frames"}, LocalFiles()).join(parts, joined)
    with open(joined, "rb") as stream:
        assert pa.ipc.open_stream(stream).read_all().to_pydict() == rows(1, 2, 3).to_pydict()


def test_files_of_changes_that_are_no_texts_are_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = Frames(ChangelogMode.RETRACT)
    monkeypatch.setattr("sqlstream.runtime.connectors.files.file_options.format_of", lambda name: frames)
    options = {"path": "/t", "format": "frames", "auto-compaction": "true"}
    with pytest.raises(UserError, match='files of changes in format "frames" cannot be joined'):
        check_files("t", options)
