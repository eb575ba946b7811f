"""The connector `ledger`: a directory of Arrow files, to which committed rows are added and from which they are read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.fixed_splits import FixedSplits, own_share
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.committable import Committable
from sqlstream.spi.connector import (
    ConnectorContext,
    ConnectorDescriptor,
    EnumeratorContext,
    OptionType,
    Place,
    Reading,
    SinkWriter,
    SourceReader,
    SourceStatus,
    SplitEnumerator,
    Writing,
)
from sqlstream.spi.files import Files
from sqlstream.spi.table_options import descriptors_of, option, parse_options

STAGED = ".staged"


@dataclass(frozen=True, kw_only=True)
class LedgerOptions:
    """The options of a table."""

    path: str = option("path", OptionType.STRING, "The directory.", is_required=True)
    pages: int = option("pages", OptionType.INTEGER, "Rows of a file at most.", "1000", minimum=1)


class Ledger:
    """Each committed file is a split. A position is a file and the rows of it that were returned."""

    sqlstream_api = 1
    descriptor = ConnectorDescriptor(
        "ledger",
        options=descriptors_of(LedgerOptions),
        reading=Reading(),
        writing=Writing(),
        place=Place(options=("path",)),
    )

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        if not parse_options(LedgerOptions, options).path:
            raise UserError("SS4002", 'option "path" cannot be empty', hint="name a directory")

    def paths(self, options: Mapping[str, str]) -> tuple[str, ...]:
        return (options["path"],)

    def with_absolute_paths(self, options: Mapping[str, str], directory: str) -> Mapping[str, str]:
        return {**options, "path": os.path.join(directory, options["path"])}

    def source(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> SourceReader:
        return LedgerReader(spec, context, own_share(self, spec, context) if splits is None else splits)

    def split_enumerator(
        self, spec: SourceSpec, context: EnumeratorContext, state: dict[str, Any] | None
    ) -> SplitEnumerator:
        found = context.files.list_files(spec.options["path"])
        return FixedSplits([{"file": status.path, "row": 0} for status in found], state)

    def sink(self, spec: SinkSpec, mode: ChangelogMode, context: ConnectorContext) -> SinkWriter:
        return LedgerWriter(spec, context)

    def commit(
        self, spec: SinkSpec, checkpoint_id: int, committables: list[Committable], files: Files
    ) -> None:
        path = spec.options["path"]
        for committable in committables:
            for name in committable.content["files"]:
                # A file that is not staged any more was published by a commit that this one repeats.
                if files.status(os.path.join(path, STAGED, name)) is not None:
                    files.publish(os.path.join(path, STAGED, name), os.path.join(path, name))

    def abort(self, spec: SinkSpec, job_id: str, committables: list[Committable], files: Files) -> None:
        path = spec.options["path"]
        for committable in committables:
            for name in committable.content["files"]:
                files.remove(os.path.join(path, STAGED, name))
                files.remove(os.path.join(path, name))


class LedgerReader:
    """State: the files that are not read, with the rows of the first one that were returned."""

    def __init__(self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]]) -> None:
        self._columns = list(spec.columns)
        self._batch_rows = context.batch_rows
        self._files = context.files
        self._splits = [dict(split) for split in splits]
        self._table: Any = None

    def poll(self) -> Any:
        if not self._splits:
            return SourceStatus.END
        split = self._splits[0]
        if self._table is None:
            self._table = self._read(split["file"])
        batch = self._table.slice(split["row"], self._batch_rows)
        split["row"] += batch.num_rows
        if split["row"] >= self._table.num_rows:
            self._splits.pop(0)
            self._table = None
        return batch

    def _read(self, path: str) -> Any:
        import pyarrow as pa

        with self._files.open_read(path) as stream, pa.ipc.open_file(stream) as source:
            return source.read_all().combine_chunks().to_batches()[0].select(self._columns)

    def next_poll_ms(self) -> int | None:
        return None

    def snapshot(self) -> list[dict[str, Any]]:
        return [dict(split) for split in self._splits]

    def close(self) -> None:
        self._table = None


class LedgerWriter:
    """State: the rows since the last checkpoint, and the files that are staged."""

    def __init__(self, spec: SinkSpec, context: ConnectorContext) -> None:
        self._path = spec.options["path"]
        self._rows_max = parse_options(LedgerOptions, dict(spec.options)).pages
        self._context = context
        self._batches: list[Any] = []
        self._count = 0
        self._staged: list[str] = []

    def write(self, batch: Any) -> None:
        if batch.num_rows:
            self._batches.append(batch)

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        import pyarrow as pa

        if not self._batches:
            return []
        rows = pa.Table.from_batches(self._batches).combine_chunks().to_batches()[0]
        names = []
        for start in range(0, rows.num_rows, self._rows_max):
            names.append(self._stage(rows.slice(start, self._rows_max)))
        self._batches, self._staged = [], []
        context = self._context
        writer_id = f"{context.vertex_id}-{context.subtask}-{context.attempt}"
        return [Committable(context.job_id, checkpoint_id, writer_id, context.subtask, {"files": names})]

    def _stage(self, rows: Any) -> str:
        import pyarrow as pa

        context = self._context
        name = f"{context.job_id}-{context.vertex_id}-{context.subtask}-{context.attempt}-{self._count}.arrow"
        self._count += 1
        self._staged.append(name)
        with context.files.open_write(os.path.join(self._path, STAGED, name)) as stream:
            with pa.ipc.new_file(stream, rows.schema) as writer:
                writer.write_batch(rows)
            context.files.sync(stream)
        return name

    def abort(self) -> None:
        for name in self._staged:
            self._context.files.remove(os.path.join(self._path, STAGED, name))
