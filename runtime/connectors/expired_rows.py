"""Connector `expired-rows`: what the state of jobs has let go because of its age, out of their last checkpoints."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from sqlstream.errors import ExternalError, SqlStreamError, UserError
from sqlstream.expired_rows import (
    CONNECTOR,
    JOB,
    LAST_USED,
    READ,
    ROWS,
    KeptPlace,
    KeptRows,
    kept_name,
)
from sqlstream.messages.ledger import SIDES
from sqlstream.runtime.connectors.fixed_splits import FixedSplits, own_share
from sqlstream.schema import Schema
from sqlstream.spi.connector import (
    ConnectorContext,
    ConnectorDescriptor,
    EnumeratorContext,
    OptionDescriptor,
    OptionType,
    Reading,
    SourceStatus,
)
from sqlstream.spi.one_sided import SourceOnlyConnector

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.graph.state_identity import ExpiredState
    from sqlstream.runtime.checkpoint.checkpoint_directory import StoredCheckpoint
    from sqlstream.runtime.checkpoint.saved_tables import SavedTable, SavedTables
    from sqlstream.specs import SourceSpec
    from sqlstream.spi.files import Files
    from sqlstream.types import LogicalType

ROWS_MAX = 10_000_000
"""The most rows of a table of state, of which equal ones are kept once."""

_TRIES_MAX = 5
"""A checkpoint that is removed while it is read has a newer one in its place."""


class ExpiredRowsConnector(SourceOnlyConnector):
    """Each split is a job: all its rows, of its newest checkpoint when they are read."""

    descriptor = ConnectorDescriptor(
        CONNECTOR,
        options=(OptionDescriptor(READ, OptionType.STRING, "What is read, as JSON.", is_required=True),),
        reading=Reading(),
        is_internal=True,
    )

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        """The binder makes the options."""

    def split_enumerator(
        self, spec: SourceSpec, context: EnumeratorContext, state: dict[str, Any] | None
    ) -> FixedSplits:
        return FixedSplits([msgspec.to_builtins(place) for place in _read_of(spec).places], state)

    def source(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> ExpiredRowsReader:
        return ExpiredRowsReader(spec, context, own_share(self, spec, context) if splits is None else splits)


class ExpiredRowsReader:
    """The rows of a job are one batch, so that a reader that goes on from a snapshot has all of them or none. State: the jobs
    that are left."""

    def __init__(self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]]) -> None:
        self._spec = spec
        self._context = context
        self._places = [msgspec.convert(split, KeptPlace) for split in splits]

    def poll(self) -> pa.RecordBatch | SourceStatus:
        if not self._places:
            return SourceStatus.END
        return self._rows(self._places.pop())

    def next_poll_ms(self) -> int | None:
        return None

    def snapshot(self) -> list[dict[str, Any]]:
        return [msgspec.to_builtins(place) for place in self._places]

    def close(self) -> None:
        self._places = []

    def _rows(self, place: KeptPlace) -> pa.RecordBatch:
        for tries in range(1, _TRIES_MAX + 1):
            try:
                return self._read(place)
            except SqlStreamError as error:
                is_away = error.code == "SS6212"
                if is_away and tries == _TRIES_MAX:
                    raise _ended(place) from error
                if tries == _TRIES_MAX or not (is_away or isinstance(error, ExternalError)):
                    raise
        raise AssertionError

    def _read(self, place: KeptPlace) -> pa.RecordBatch:
        from sqlstream.runtime.checkpoint.saved_tables import SavedTables

        files, stored = _newest(place, self._context.config)
        fields = self._spec.schema.fields
        columns = [(f.name, f.type) for name in self._spec.columns for f in fields if f.name == name]
        return rows_of(SavedTables(files, stored), _read_of(self._spec), columns, self._spec.table)


def rows_of(
    saved: SavedTables, read: KeptRows, columns: Sequence[tuple[str, LogicalType]], name: str
) -> pa.RecordBatch:
    """The rows of `t$expired`, which is called `name`, in a checkpoint, as these columns."""
    import pyarrow as pa

    from sqlstream.arrow import to_arrow_type
    from sqlstream.runtime.connectors.declared_rows import as_declared

    pieces = [
        as_declared(columns, _shown(saved.rows(table), table, kept, read, columns), name)
        for table, kept in _kept_tables(saved, read.table)
    ]
    schema = pa.schema([(name, to_arrow_type(type)) for name, type in columns])
    return pa.concat_batches(pieces or [pa.RecordBatch.from_pylist([], schema)])


def _read_of(spec: SourceSpec) -> KeptRows:
    return msgspec.json.decode(spec.options[READ], type=KeptRows)


def _ended(place: KeptPlace) -> UserError:
    return UserError(
        "SS3574",
        f'the checkpoints of job "{place.job_id}" are gone, which its expired rows are read out of',
        detail="the job has ended since the statement began, or somebody has removed them",
    )


def _newest(place: KeptPlace, config: Mapping[str, str]) -> tuple[Files, StoredCheckpoint]:
    """The checkpoint of the job that is the newest now; a savepoint is the one that was named."""
    from sqlstream.runtime.checkpoint.checkpoint_directory import CheckpointDirectory, load_checkpoint
    from sqlstream.runtime.checkpoint.checkpoint_store import checkpoint_files

    files = checkpoint_files(place.path, config)
    newest = None
    if posixpath.basename(place.path).startswith("chk-"):
        newest = CheckpointDirectory(files, posixpath.dirname(place.path)).retained().newest()
    return files, newest or load_checkpoint(files, place.path)


def _kept_tables(saved: SavedTables, identity: str) -> Iterator[tuple[SavedTable, ExpiredState]]:
    for table in saved.tables:
        state = table.operator.state
        for kept in state.expired if state is not None else ():
            if identity in kept.tables and table.parts[0].name == kept_name(kept.state):
                yield table, kept


def _shown(
    rows: pa.Table,
    table: SavedTable,
    kept: ExpiredState,
    read: KeptRows,
    columns: Sequence[tuple[str, LogicalType]],
) -> pa.Table:
    """The columns of `t$expired`, each row as often as it was there; NULL in those that the state had not."""
    import pyarrow as pa

    from sqlstream.arrow import to_arrow_type
    from sqlstream.runtime.state.state_ttl import TOUCHED_COLUMN

    times = rows.column(ROWS).to_numpy()
    if times.sum() > ROWS_MAX:
        raise UserError(
            "SS3571",
            f'"{table.operator.name}" has let go {times.sum():,} rows, many of them equal: {ROWS_MAX:,} can be shown',
        )
    if len(times) and times.max() > 1:
        rows = rows.take(pa.array(np.repeat(np.arange(len(times)), times)))
    operator = f"{table.operator.name} {kept.state}" if kept.state in SIDES else table.operator.name
    own = {
        "$job": rows.column(JOB),
        "$operator": pa.repeat(pa.scalar(operator), rows.num_rows),
        "$expired_at": rows.column(TOUCHED_COLUMN).cast(pa.timestamp("ms", "UTC")),
        "$last_used": rows.column(LAST_USED).cast(pa.timestamp("ms", "UTC")),
    }
    held = {column.column: rows.column(column.name) for column in kept.columns if column.table == read.table}
    found = [
        (own[name] if name not in read.columns else held.get(read.columns[name]), to_arrow_type(type))
        for name, type in columns
    ]
    arrays = [pa.nulls(rows.num_rows, type) if array is None else array for array, type in found]
    return pa.table(arrays, names=[str(number) for number in range(len(arrays))])
