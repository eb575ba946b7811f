"""What a connector of another package must do: lose and double no row, however readers share a table and whenever they die."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode
from sqlstream.client.sessions.target_session import local_session
from sqlstream.errors import SqlStreamError
from sqlstream.graph.job_graph import read_tables, written_tables
from sqlstream.planner.dialect.parser import parse_statements
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable, writer_name
from sqlstream.spi.connector import (
    FOR_EVERY_READER,
    AbortsCommittables,
    ConnectorContext,
    ConnectorDescriptor,
    EnumeratesSplits,
    NamesPaths,
    OptionType,
    SourceStatus,
)
from sqlstream.testing.check import Check, Row, columns_text, expect_refused, rows_of, same_rows, table_text
from sqlstream.testing.mortal_files import Died, MortalFiles, Process
from sqlstream.testing.trial_jobs import AssignedReader, numbers_text, run_and_kill

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 23
BATCH_ROWS = (1, 2, 7, 65_536)
SEEDS = range(8)
POLLS_MAX = 100_000
COMMIT_CALLS_MAX = 200
JOB = "a" * 32
Positions = list[dict[str, Any]]


@dataclasses.dataclass
class _Clock:
    """Of all readers and writers of this module: time passes when a reader waits for it."""

    now_ms: int = 1_000_000


_CLOCK = _Clock()


@dataclasses.dataclass(frozen=True)
class ConnectorCase:
    """A connector and a table of its own.

    `options` gives the table's options for an empty directory. A connector that can be written gets rows by `values`: a SQL
    expression for each column, of the BIGINT `n`. One that is only read has `rows` in its table. `refused` are wrong options,
    each with the code of its error; `refused_columns` are types that it cannot carry (SS4006).
    """

    connector: str
    columns: Mapping[str, str]
    options: Callable[[Path], Mapping[str, str]]
    values: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    refused: tuple[tuple[Mapping[str, str], str], ...] = ()
    refused_columns: tuple[str, ...] = ()

    def checks(self) -> list[Check]:
        descriptor = connector(self.connector).descriptor
        parts: dict[str, Callable[[Path], None]] = {"options": self._options, "types": self._types}
        if descriptor.is_source:
            parts["split"] = self._split
            if not descriptor.reading.reads_once:
                parts |= {"restore": self._restore, "rescale": self._rescale}
        if descriptor.is_sink and descriptor.is_source:
            parts |= {"commit": self._commit, "abort": self._abort, "died commit": self._died_commit}
        made = [Check(f"{self.connector}: {name}", run) for name, run in parts.items()]
        # Where an option decides whether rows may come again, the table of the case is one whose rows do not.
        if "commit" in parts and (not descriptor.writing.is_at_least_once or descriptor.writing.unless[0]):
            made.append(Check(f"{self.connector}: kill", self._kill, is_slow=True))
        return made

    # --- tables

    def _table(self, directory: Path, **changed: str | None) -> str:
        options = {"connector": self.connector, **self.options(directory)}
        options |= {key: value for key, value in changed.items() if value is not None}
        kept = {key: value for key, value in options.items() if changed.get(key, "") is not None}
        return table_text("t", columns_text(self.columns), kept)

    def _made_rows(self, first: int = 0, count: int = ROWS) -> list[Row]:
        numbers = ", ".join(f"(CAST({n} AS BIGINT))" for n in range(first, first + count))
        return rows_of([f"SELECT {', '.join(self.values)} FROM (VALUES {numbers}) AS s(n)"])

    def _filled(self, directory: Path) -> list[Row]:
        """The rows that the table of a directory has."""
        if not self.values:
            return list(self.rows)
        for first in (0, ROWS):
            numbers = ", ".join(f"(CAST({n} AS BIGINT))" for n in range(first, first + ROWS))
            made = f"INSERT INTO t SELECT {', '.join(self.values)} FROM (VALUES {numbers}) AS s(n)"
            rows_of([self._table(directory), made, "SHOW TABLES"])
        return self._made_rows(0, 2 * ROWS)

    def _source(self, directory: Path, columns: str = "*") -> SourceSpec:
        graph = self._planned(directory, f"SELECT {columns} FROM t")
        return next(spec for _, spec in read_tables(graph))

    def _sink(self, directory: Path) -> SinkSpec:
        nulls = ", ".join(self.values)
        graph = self._planned(
            directory, f"INSERT INTO t SELECT {nulls} FROM (VALUES (CAST(1 AS BIGINT))) AS s(n)"
        )
        return next(spec for _, spec in written_tables(graph))

    def _planned(self, directory: Path, statement: str) -> Any:
        with local_session() as session:
            *tables, last = parse_statements(f"{self._table(directory)};\n{statement}")
            for table in tables:
                session.execute(table)
            return session.compile(last).job_graph

    def _batch(self, spec: SinkSpec, rows: Sequence[Row]) -> pa.RecordBatch:
        import pyarrow as pa

        schema = to_arrow_schema(spec.schema)
        arrays = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _visible(self, directory: Path) -> list[Row]:
        return _read(_reader(self._source(directory), 0, 1, 65_536))

    def _visible_so_far(self, directory: Path) -> list[Row]:
        """The same where the table may not be there yet."""
        try:
            return self._visible(directory)
        except SqlStreamError:
            return []

    # --- checks

    def _options(self, directory: Path) -> None:
        descriptor: ConnectorDescriptor = connector(self.connector).descriptor
        for option in descriptor.options:
            if option.is_required:
                table = self._table(directory, **{option.key: None})
                expect_refused(table, "SS4005", f'a table without "{option.key}"')
            if option.type is not OptionType.STRING and "#" not in option.key:
                table = self._table(directory, **{option.key: "no such value"})
                expect_refused(table, "SS4002", f'a wrong value of "{option.key}"')
        expect_refused(self._table(directory, **{"no-such-option": "1"}), "SS4003", "an unknown option")
        for options, code in self.refused:
            expect_refused(self._table(directory, **options), code, f"the options {options}")
        if descriptor.place.options:
            assert isinstance(connector(self.connector), NamesPaths), (
                "it does not say which files its tables are"
            )

    def _types(self, directory: Path) -> None:
        options = {"connector": self.connector, **self.options(directory)}
        for text in self.refused_columns:
            expect_refused(
                table_text("t", f"`refused` {text}", options), "SS4006", f"a column of type {text}"
            )
        if not connector(self.connector).descriptor.is_source:
            return
        rows = self._filled(directory)
        for place, name in enumerate(self.columns):
            spec = self._source(directory, f"`{name}`")
            found = _read(_reader(spec, 0, 1, 7), spec)
            read = spec.columns.index(name)
            same_rows(
                [(row[read],) for row in found], [(row[place],) for row in rows], f"column {name} alone"
            )

    def _split(self, directory: Path) -> None:
        rows = self._filled(directory)
        spec = self._source(directory)
        for parallelism, batch_rows in itertools.product((1, 2, 3), BATCH_ROWS):
            readers = [_reader(spec, n, parallelism, batch_rows) for n in range(parallelism)]
            found = [row for reader in readers for row in _read(reader, spec)]
            same_rows(found, rows, f"{parallelism} readers that share the table, {batch_rows} rows at once")

    def _restore(self, directory: Path) -> None:
        rows = self._filled(directory)
        spec = self._source(directory)
        for seed in SEEDS:
            fate = random.Random(seed)
            same_rows(_read_with_cuts(spec, fate), rows, f"a reader that goes on from snapshots, seed {seed}")

    def _rescale(self, directory: Path) -> None:
        rows = self._filled(directory)
        spec = self._source(directory)
        for seed, later in itertools.product(SEEDS, (1, 3)):
            fate = random.Random(seed)
            found: list[Row] = []
            positions: Positions = []
            batch_rows = fate.choice(BATCH_ROWS)
            for subtask in range(2):
                reader = _reader(spec, subtask, 2, batch_rows)
                found += _read(reader, spec, polls=fate.randint(0, 6), is_closed=False)
                positions += json.loads(json.dumps(reader.snapshot()))
                reader.close()
            everywhere = [p for p in positions if p.get(FOR_EVERY_READER)]
            shared = [p for p in positions if not p.get(FOR_EVERY_READER)]
            for subtask in range(later):
                share = [*shared[subtask::later], *everywhere]
                found += _read(_reader(spec, subtask, later, 7, share), spec)
            same_rows(found, rows, f"2 readers, then {later}, seed {seed}")

    def _commit(self, directory: Path) -> None:
        rows = self._made_rows()
        spec = self._sink(directory)
        for checkpoint, part in ((1, rows[:9]), (2, rows[9:10]), (LAST_CHECKPOINT_ID, rows[10:])):
            before = self._visible_so_far(directory)
            committables = self._written(spec, part, checkpoint)
            same_rows(self._visible_so_far(directory), before, "rows that are not committed")
            for repetition in range(2):
                connector(self.connector).commit(spec, checkpoint, committables, LocalFiles())
                wanted = rows[: rows.index(part[-1]) + 1]
                same_rows(
                    self._visible(directory), wanted, f"checkpoint {checkpoint}, commit {repetition + 1}"
                )

    def _abort(self, directory: Path) -> None:
        rows = self._made_rows()
        spec = self._sink(directory)
        first = self._written(spec, rows[:5], 1)
        connector(self.connector).commit(spec, 1, first, LocalFiles())
        writer = connector(self.connector).sink(
            spec, ChangelogMode.INSERT_ONLY, context_of(0, 1, 7, attempt=1)
        )
        writer.write(self._batch(spec, rows[5:]))
        writer.abort()
        same_rows(self._visible(directory), rows[:5], "a writer that was told to abort")
        abandoned = self._written(spec, rows[5:], 2, attempt=2)
        aborting = connector(self.connector)
        if isinstance(aborting, AbortsCommittables):
            aborting.abort(spec, JOB, abandoned, LocalFiles())
        same_rows(self._visible(directory), rows[:5], "a checkpoint that was not completed")

    def _died_commit(self, directory: Path) -> None:
        rows = self._made_rows()
        for calls in range(COMMIT_CALLS_MAX):
            place = directory / str(calls)
            place.mkdir()
            spec = self._sink(place)
            committables = self._written(spec, rows, 1)
            has_died = False
            try:
                connector(self.connector).commit(spec, 1, committables, MortalFiles(Process(calls)))
            except Died:
                has_died = True
            connector(self.connector).commit(spec, 1, committables, LocalFiles())
            same_rows(
                self._visible(place), rows, f"a commit that died at step {calls} of its files, repeated"
            )
            if not has_died:
                return
        raise AssertionError(f"a commit of {len(rows)} rows has more than {COMMIT_CALLS_MAX} steps")

    def _written(
        self, spec: SinkSpec, rows: Sequence[Row], checkpoint: int, attempt: int = 0
    ) -> list[Committable]:
        """What two writers have made ready, of whom each got every second row."""
        committables = []
        for subtask in range(2):
            context = context_of(subtask, 2, 7, attempt=attempt + 10 * min(checkpoint, 9))
            writer = connector(self.connector).sink(spec, ChangelogMode.INSERT_ONLY, context)
            for row in rows[subtask::2]:
                writer.write(self._batch(spec, [row]))
            committables += writer.prepare_commit(checkpoint)
        return committables

    def _kill(self, directory: Path) -> None:
        count = 4000
        made = f"INSERT INTO t SELECT {', '.join(self.values)} FROM numbers"
        table = self._table(directory)
        run_and_kill(table, made, count, directory, lambda: bool(self._visible_so_far(directory)))
        numbers = numbers_text(count, rows_per_second=10_000_000)
        wanted = rows_of([numbers, f"SELECT {', '.join(self.values)} FROM numbers"])
        found = self._visible(directory)
        assert sorted(map(repr, found)) == sorted(map(repr, wanted)), (
            f"a job whose TaskManager was killed has written {len(found)} rows for {len(wanted)}"
        )


def context_of(
    subtask: int = 0, parallelism: int = 1, batch_rows: int = 65_536, attempt: int = 0
) -> ConnectorContext:
    return ConnectorContext(
        job_id=JOB,
        vertex_id="v",
        subtask=subtask,
        parallelism=parallelism,
        attempt=attempt,
        batch_rows=batch_rows,
        config={},
        now_ms=lambda: _CLOCK.now_ms,
        count=lambda name, n: None,
        files=LocalFiles(),
        writer_name=writer_name(f"{attempt}", f"v-{subtask}", 1),
    )


def _reader(
    spec: SourceSpec, subtask: int, parallelism: int, batch_rows: int, positions: Positions | None = None
) -> Any:
    return connector(spec.connector).source(spec, context_of(subtask, parallelism, batch_rows), positions)


def _read(
    reader: Any, spec: SourceSpec | None = None, polls: int = POLLS_MAX, *, is_closed: bool = True
) -> list[Row]:
    """The rows of at most so many polls; the types of `spec` are checked."""
    rows: list[Row] = []
    for _ in range(polls):
        polled = reader.poll()
        if polled is SourceStatus.END:
            break
        if polled is SourceStatus.NOTHING_YET:
            # Its time has come when it is polled next.
            _CLOCK.now_ms = max(_CLOCK.now_ms, reader.next_poll_ms() or 0)
            continue
        if spec is not None:
            declared = dict(zip(spec.schema.names, to_arrow_schema(spec.schema).types, strict=True))
            types = [declared[name] for name in spec.columns]
            assert polled.schema.types[: len(types)] == types, f"{polled.schema.types} instead of {types}"
        values = [column.to_pylist() for column in polled.columns[: len(spec.columns) if spec else None]]
        rows += list(zip(*values, strict=True)) if values else [()] * polled.num_rows
    else:
        assert polls < POLLS_MAX, f"a reader has not come to its end in {POLLS_MAX} polls"
    if is_closed:
        reader.close()
    return rows


def _read_with_cuts(spec: SourceSpec, fate: random.Random) -> list[Row]:
    """All rows, by readers of which each is thrown away at a random poll, with what it has returned since its snapshot."""
    made = connector(spec.connector)
    rows: list[Row] = []
    kept: Positions | None = None
    state: dict[str, Any] | None = None
    for cut in range(6):
        context = context_of(0, 1, fate.choice(BATCH_ROWS))
        assigned = (
            AssignedReader(made, spec, context, kept, state) if isinstance(made, EnumeratesSplits) else None
        )
        reader = assigned.reader if assigned is not None else made.source(spec, context, kept)
        polled = assigned if assigned is not None else reader
        rows += _read(polled, spec, fate.randint(0, 9) if cut < 5 else POLLS_MAX, is_closed=False)
        kept = json.loads(json.dumps(reader.snapshot()))
        if assigned is not None:
            state = json.loads(json.dumps(assigned.enumerator.snapshot()))
        _read(polled, spec, fate.randint(0, 3), is_closed=False)
        reader.close()
    return rows
