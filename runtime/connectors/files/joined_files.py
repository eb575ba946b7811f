"""Which files of a checkpoint are joined into one, and the joining."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from sqlstream.runtime.connectors.files.change_order import is_change_file
from sqlstream.runtime.connectors.files.table_log import STAGED, Move
from sqlstream.runtime.formats import format_of, format_options
from sqlstream.runtime.host.files import file_error
from sqlstream.schema import Schema
from sqlstream.spi.committable import Committable, in_order
from sqlstream.spi.files import Files

_COPIED_BYTES = 1 << 20


@dataclass(frozen=True)
class JoinedFile:
    """`parts` are hidden files, relative to the table's path as the move's, whose rows become those of the move's file."""

    move: Move
    parts: tuple[str, ...]


def joined_files(path: str, committables: list[Committable], target_bytes: int) -> list[JoinedFile]:
    """The files of a commit by partition, in their order, each joined with the next ones until it has the target's size. The
    same in every repetition of the commit. A file of one part alone is that part. Files of changes, which are read in the order
    of their names, are joined with those of the same writer only."""
    partitions: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for committable in in_order(committables):
        for file in committable.content["files"]:
            directory, name = os.path.split(file["final"])
            writer = committable.writer_id if is_change_file(name) else ""
            partitions.setdefault((directory, writer), []).append(file)
    return [
        _joined(path, group)
        for _, written in sorted(partitions.items())
        for group in _groups(written, target_bytes)
    ]


def _groups(written: list[dict[str, Any]], target_bytes: int) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    size = 0
    for file in written:
        if group and size + file["bytes"] > target_bytes:
            yield group
            group, size = [], 0
        group.append(file)
        size += file["bytes"]
    if group:
        yield group


def _joined(path: str, group: list[dict[str, Any]]) -> JoinedFile:
    first = Move(os.path.relpath(group[0]["hidden"], path), os.path.relpath(group[0]["final"], path))
    if len(group) == 1:
        return JoinedFile(first, ())
    # part-<writer>-… becomes part-<writer>-joined-…: it is that writer's, and no other file of it is called so.
    directory, name = os.path.split(first.final)
    writer = "-".join(name.split("-")[:2])
    if is_change_file(name):
        # It is read where its first part would be: behind what the writer wrote before, and before what it writes later.
        stem, dot, suffix = name.partition(".")
        name = f"{stem}-joined{dot}{suffix}"
    else:
        name = f"{writer}-joined{name.removeprefix(writer)}"
    hidden = os.path.join(os.path.dirname(first.hidden), name + STAGED)
    move = Move(hidden, os.path.join(directory, name))
    return JoinedFile(move, tuple(os.path.relpath(file["hidden"], path) for file in group))


class FileJoiner:
    """Writes the rows of several files of a format into one. No state."""

    def __init__(self, schema: Schema, options: dict[str, str], files: Files) -> None:
        """`schema` has the columns that are in the files."""
        self._schema = schema
        self._format = format_of(options["format"])
        self._options = format_options(options["format"], options)
        self._files = files

    def join(self, parts: list[str], joined: str) -> None:
        """`joined` is there, whole, when this returns. ExternalError SS5001."""
        draft = f"{joined}.draft"
        stream = self._files.open_write(draft)
        try:
            with stream:
                if self._format.descriptor.is_text:
                    self._append_texts(parts, stream)
                else:
                    self._append_rows(parts, stream)
                stream.flush()
                self._files.sync(stream)
        except OSError as error:
            raise file_error("write", joined, error) from error
        self._files.publish(draft, joined)

    def _append_texts(self, parts: list[str], stream: BinaryIO) -> None:
        """Rows of texts end with their line, and files have no heads."""
        for part in parts:
            with self._files.open_read(part) as source:
                shutil.copyfileobj(source, stream, _COPIED_BYTES)

    def _append_rows(self, parts: list[str], stream: BinaryIO) -> None:
        import pyarrow.parquet as pq

        from sqlstream.arrow import to_arrow_schema

        schema = to_arrow_schema(self._schema)
        writer = self._format.writer(stream, self._schema, self._options)
        for part in parts:
            with pq.ParquetFile(self._files.map_read(part)) as rows:
                for batch in rows.iter_batches():
                    writer.write(batch.cast(schema))
        writer.close()
