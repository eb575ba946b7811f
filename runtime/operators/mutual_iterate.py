"""Recursive queries that read each other: rounds of them until nothing changes, within one operator."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sqlstream import config as options
from sqlstream.arrow import is_changelog, to_arrow_schema, with_row_kinds
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.errors import UserError
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.operators.inner_chain import InnerChain
from sqlstream.runtime.operators.iterate import (
    NewRows,
    PendingRounds,
    emit_pieces,
    endless,
    net_changes,
    too_large,
)
from sqlstream.runtime.operators.operator import OperatorContext, Output
from sqlstream.runtime.operators.peers import Peers
from sqlstream.runtime.operators.settled_rows import BetterRows, SupportedRows
from sqlstream.runtime.operators.supersteps import SuperstepOperator
from sqlstream.runtime.operators.unroll import net_of_slots, signed_kinds
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.row_multiset import PlacedMultiset, RowMultiset
from sqlstream.schema import Field, Schema
from sqlstream.specs.iterate import ROUND_COLUMN, SIGN_COLUMN, MutualIterateSpec
from sqlstream.types import BIGINT

_ROUND, _SIGN = Field(ROUND_COLUMN, BIGINT.not_null()), Field(SIGN_COLUMN, BIGINT.not_null())


class MutualIterate(SuperstepOperator[MutualIterateSpec]):
    """Runs the turns of the queries in which a row comes or goes otherwise than before, in ascending order, each once: what a
    turn makes belongs to later ones. So turns that stay as they are cost nothing, and what was made of a row goes with it, in
    a circle too: a row is made of what came in earlier turns alone.

    State: that of the queries' operators, and for each query how often each row comes or goes in each turn.
    """

    mode = ChangelogMode.RETRACT
    columns_behind: tuple[Field, ...] = (_ROUND, _SIGN)
    """What rows have within the queries."""

    def __init__(self, spec: MutualIterateSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._count = len(spec.names)
        rows = [Schema((*schema.fields, *self.columns_behind)) for schema in spec.columns]
        inputs = [(schema, self.mode) for schema in rows]
        inputs += zip(context.input_schemas, context.input_modes, strict=True)
        self._readers: dict[int, list[int]] = defaultdict(list)
        for query, numbers in enumerate(spec.results):
            for number in numbers:
                self._readers[number].append(query)
        self._chain = InnerChain(spec.operators, self._readers, context, inputs, spec.placements)
        made = [Schema((*schema.fields, *self.columns_behind[1:])) for schema in spec.columns]
        self._pending = context.state.add(
            PendingRounds([to_arrow_schema(schema, self.mode) for schema in made])
        )
        has_better = any(any(spec.extremes[query]) for query in spec.read) if spec.extremes else False
        is_growing = self.mode.is_insert_only and not has_better
        self._result = _Result(spec, context, has_kinds=not is_growing)
        self._summed_in = ", ".join(spec.names) if spec.has_sums else ""
        self._declare()
        self._rounds_max = spec.rounds_max or int(
            options.get(context.config, "sqlstream.recursion.max-rounds")
        )
        self._ends_early = bool(spec.rounds_max) and not spec.is_error

    def _declare(self) -> None:
        columns = enumerate(self.spec.columns)
        placements = self.spec.placements
        self._rows = [
            RowsOfTurns(number, schema, self.context, placements[number] if placements else ())
            for number, schema in columns
        ]

    # -- input -------------------------------------------------------------------------------------

    def _feed(self, batch: pa.RecordBatch, input_index: int) -> None:
        self._chain.feed(self._count + input_index, batch)
        if self._peers is None:
            self._take(0)

    @property
    def _waiting_alone(self) -> int:
        return self._pending.rows

    def on_end_of_input(self, input_index: int, output: Output) -> None:
        self._chain.end(self._count + input_index)

    def on_restored(self) -> None:
        self._chain.on_restored()

    def close(self) -> None:
        self._chain.close()
        super().close()

    # -- turns -------------------------------------------------------------------------------------

    def _run_alone(self, output: Output) -> None:
        while (turn := self._pending.next_round) is not None:
            if self._run(turn):
                if self._is_behind_limit(turn):
                    raise self._at_limit()
                self._take(turn)
            self._check_bytes()
        self._take_results()
        self._result.emit(output)

    def _run_together(self, peers: Peers, output: Output) -> None:
        turn = self._meet(peers, 0)
        while turn is not None:
            has_changed = self._pending.next_round == turn and self._run(turn)
            if self._is_behind_limit(turn):
                peers.exchange((), (), 0 if has_changed else None)
                if peers.next_round is not None:
                    raise self._at_limit()
            turn = self._meet(peers, turn, turn % self._count)
        self._take_results()
        self._result.emit(output)

    def _meet(self, peers: Peers, turn: int, query: int | None = None) -> int | None:
        """Exchange with all peers what the queries have made of rows of this turn, which are those of one query or of the tables;
        the next turn of all."""
        made = self._made(peers, query)
        for other, batches in made.items():
            if not self.spec.placements[other]:
                for batch in batches:
                    self._append(other, batch, turn)
        sent = {other: batches for other, batches in made.items() if self.spec.placements[other]}
        turns = [self._first_turn(other, batch, turn) for other, batches in sent.items() for batch in batches]
        next_turn = min((t for t in (*turns, self._pending.next_round) if t is not None), default=None)
        for other, came in self._exchanged(peers, sent, next_turn):
            self._append(other, came, turn)
        self._check_bytes()
        return peers.next_round

    def _made(self, peers: Peers, query: int | None) -> dict[int, list[pa.RecordBatch]]:
        """What the queries have made of rows of this query, or of the tables, by each that may."""
        self._chain.cross(peers, query)
        made: dict[int, list[pa.RecordBatch]] = {}
        for number, queries in self._readers.items():
            if query is None or number in self._chain.made_of(query):
                made.update({other: [] for other in queries})
        for number, batch in self._chain.take():
            for other in self._readers[number]:
                made[other].append(batch)
        return made

    def _exchanged(
        self, peers: Peers, sent: dict[int, list[pa.RecordBatch]], next_round: int | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """What comes of the queries whose rows are sent, after which all peers know the next round of all."""
        for query, batches in sent.items():
            came = peers.exchange(self.spec.placements[query], batches, next_round)
            if came is not None:
                yield query, came
        if not sent:
            peers.exchange((), (), next_round)

    def _check_bytes(self) -> None:
        if self._pending.bytes + self._result.bytes + self._chain.bytes > self._bytes_max:
            raise too_large(", ".join(self.spec.names), self._bytes_max)

    def _take_results(self) -> None:
        """What is held until all turns have run."""

    def run_one_round(self, output: Output) -> None:
        """Forget what comes behind it: rows that are made up may make others without end."""
        for query in range(self._count):
            turn = self._count + query
            if self._pending.next_round == turn and self._run(turn):
                self._take(turn)
        self._pending.forget()
        self._take_results()
        self._result.emit(output)

    def _run(self, turn: int) -> bool:
        """Let the rows of a turn make others; whether there are any."""
        query = turn % self._count
        made = self._pending.take(turn)
        assert made is not None
        slots, counts = self._rows[query].admit(turn, made)
        if not len(slots):
            self._rows[query].forget()
            return False
        if query in self.spec.read:
            self._result.add(query, self._rows[query].columns(slots), counts)
        self._chain.feed(query, self._rows[query].changes(slots, counts))
        self._rows[query].forget()
        return True

    def _is_behind_limit(self, turn: int) -> bool:
        return turn // self._count > self._rounds_max

    def _take(self, turn: int) -> None:
        """What the queries have made of the rows of a turn is theirs in their next ones."""
        for number, batch in self._chain.take():
            for query in self._readers[number]:
                self._append(query, batch, turn)

    def _append(self, query: int, batch: pa.RecordBatch, turn: int) -> None:
        rounds = self._rounds(query, batch)
        rows = batch.remove_column(len(self.spec.columns[query]))
        if not (rounds == rounds[0]).all():
            order = np.argsort(rounds, kind="stable")
            rows, rounds = rows.take(pa.array(order)), rounds[order]
        starts = [*np.flatnonzero(np.append(True, rounds[1:] != rounds[:-1])).tolist(), len(rounds)]
        for start, end in itertools.pairwise(starts):
            round_ = int(rounds[start])
            if not (self._ends_early and round_ > self._rounds_max):
                self._pending.append(round_ * self._count + query, rows.slice(start, end - start))

    def _rounds(self, query: int, batch: pa.RecordBatch) -> Array:
        turns = view_values(batch.column(len(self.spec.columns[query])), np.int64)
        return np.maximum((turns - query) // self._count + 1, 1)

    def _first_turn(self, query: int, batch: pa.RecordBatch, turn: int) -> int | None:
        """In which rows come that a query has made of those of `turn`; None where that is behind the limit."""
        round_ = int(self._rounds(query, batch).min())
        return None if self._ends_early and round_ > self._rounds_max else round_ * self._count + query

    def _at_limit(self) -> UserError:
        names = ", ".join(self.spec.names)
        if not self.spec.rounds_max:
            return endless(names, self._rounds_max)
        return UserError(
            "SS3513",
            f'the recursive queries "{names}" still change after {self._rounds_max} rounds',
            hint="raise the limit of ERROR AT RECURSION LIMIT, or stop the queries by a WHERE or by UNION instead of UNION ALL",
        )


class GrowingIterate(MutualIterate):
    """Runs turns of rows that only come: a turn has those that its query has made since its last one, and of a query with
    extremes those with better values.

    State: that of the queries' operators, and the rows of each distinct query.
    """

    mode = ChangelogMode.INSERT_ONLY
    columns_behind = ()

    def _declare(self) -> None:
        columns = zip(self.spec.columns, self.spec.is_distinct, strict=True)
        self._seen: list[NewRows | BetterRows | None] = [
            self._rows_of(number, schema) if is_distinct else None
            for number, (schema, is_distinct) in enumerate(columns)
        ]

    def _rows_of(self, number: int, schema: Schema) -> NewRows | BetterRows:
        name = f"rows{number + 1}"
        extremes = self.spec.extremes[number] if self.spec.extremes else ()
        return (
            BetterRows(schema, extremes, self.context, name, self._summed_in)
            if any(extremes)
            else NewRows(schema, self.context, name)
        )

    def _take_results(self) -> None:
        for query in self.spec.read:
            seen = self._seen[query]
            if isinstance(seen, BetterRows) and (changes := seen.take_changes()) is not None:
                self._result.add_rows(query, changes)

    def _run(self, turn: int) -> bool:
        query = turn % self._count
        rows = self._pending.take(turn)
        assert rows is not None
        seen = self._seen[query]
        if seen is not None:
            rows = seen.new_of(rows)
        if not rows.num_rows:
            return False
        if query in self.spec.read and not isinstance(seen, BetterRows):
            self._result.add_rows(query, rows)
        self._chain.feed(query, rows)
        return True

    def _append(self, query: int, batch: pa.RecordBatch, turn: int) -> None:
        self._pending.append(self._first_turn(query, batch, turn), batch)

    def _first_turn(self, query: int, batch: pa.RecordBatch, turn: int) -> int:
        return max((turn - query) // self._count + 1, 1) * self._count + query


class RankedIterate(MutualIterate):
    """Lets rows go that no row of a lower rank supports any more, then keys take the best rows that they are made with, until
    there are none that are better. Either is done for all rows of a query at once.

    State: that of the queries' operators, and that of `SupportedRows` of each query.
    """

    columns_behind = (_ROUND,)

    def _declare(self) -> None:
        queries = enumerate(zip(self.spec.columns, self.spec.extremes, strict=True))
        self._supported = [
            SupportedRows(columns, e, self.context, n, self._summed_in) for n, (columns, e) in queries
        ]
        self._rank = 1

    def on_restored(self) -> None:
        super().on_restored()
        self._rank = max(1, *(rows.on_restored() for rows in self._supported))

    @property
    def _waiting_alone(self) -> int:
        return self._fed

    def _run_alone(self, output: Output) -> None:
        if self._fed:
            self._run_rounds(output)

    def _run_together(self, peers: Peers, output: Output) -> None:
        # Ranks of all subtasks rise as one, from the greatest one of those that a restore has given them.
        self._distribute(peers, None, _RANK_MAX - self._rank)
        assert peers.next_round is not None
        self._rank = _RANK_MAX - peers.next_round
        self._run_rounds(output)

    def _run_rounds(self, output: Output) -> None:
        while sum(self._give(query, rows.unsupported()) for query, rows in enumerate(self._supported)):
            pass
        rounds = 0
        while sum(self._settle(query) for query in range(self._count)):
            rounds += 1
            if rounds > self._rounds_max:
                raise self._at_limit()
        self._take_results()
        self._result.emit(output)

    def run_one_round(self, output: Output) -> None:
        self._fed = 0
        for query in range(self._count):
            self._settle(query)
        self._take_results()
        self._result.emit(output)

    def _settle(self, query: int) -> bool:
        changes = self._supported[query].chosen(self._rank)
        self._rank += 1
        return self._give(query, changes)

    def _give(self, query: int, changes: pa.RecordBatch | None) -> bool:
        """Whether there were changes, of any peer."""
        if changes is not None:
            if changes.nbytes + sum(rows.bytes for rows in self._supported) > self._bytes_max:
                raise too_large(", ".join(self.spec.names), self._bytes_max)
            self._chain.feed(query, changes)
        if self._peers is not None:
            self._distribute(self._peers, query, None if changes is None else 0)
            return self._peers.next_round is not None
        if changes is not None:
            self._take(0)
        return changes is not None

    def _distribute(self, peers: Peers, query: int | None, said: int | None) -> None:
        for other, came in self._exchanged(peers, self._made(peers, query), said):
            self._supported[other].apply(came)

    def _append(self, query: int, batch: pa.RecordBatch, turn: int) -> None:
        self._supported[query].apply(batch)

    def _take_results(self) -> None:
        for query, rows in enumerate(self._supported):
            changes = rows.take_changes(is_read=query in self.spec.read)
            if changes is not None:
                self._result.add_rows(query, changes)


_RANK_MAX = 1 << 62


def make_mutual_iterate(spec: MutualIterateSpec, context: OperatorContext) -> MutualIterate:
    if spec.has_rounds:
        return MutualIterate(spec, context)
    return RankedIterate(spec, context) if spec.has_ranks else GrowingIterate(spec, context)


class RowsOfTurns:
    """How often each row of one of the queries comes (a count above zero) or goes (below) in each turn. State: these counts, by
    the key groups of the columns `placement`."""

    def __init__(
        self, number: int, columns: Schema, context: OperatorContext, placement: tuple[int, ...]
    ) -> None:
        self._width = len(columns)
        counted = Schema((*columns.fields, _ROUND))
        self._counted = to_arrow_schema(counted, ChangelogMode.RETRACT)
        self._touched: Array = np.empty(0, dtype=np.int64)
        rows = to_arrow_schema(counted)
        self._rows = context.state.add(
            PlacedMultiset(rows, f"rows{number + 1}", placement, context.state.scope)
            if placement
            else RowMultiset(rows, f"rows{number + 1}")
        )
        self._schema = to_arrow_schema(Schema((*columns.fields, _ROUND, _SIGN)), ChangelogMode.RETRACT)

    def admit(self, turn: int, made: pa.RecordBatch) -> tuple[Array, Array]:
        """(slots, counts): the rows whose count in this turn is another one, and by how much; `forget` comes behind it."""
        turns = to_array(pa.int64(), np.full(made.num_rows, turn, dtype=np.int64))
        kinds = signed_kinds(made, self._width)
        arrays = [*made.columns[: self._width], turns, pa.array(kinds)]
        slots, _ = self._rows.apply(pa.RecordBatch.from_arrays(arrays, schema=self._counted))
        self._touched = slots
        return net_of_slots(slots, kinds)

    def columns(self, slots: Array) -> list[pa.Array]:
        return self._rows.columns(slots, range(self._width))

    def changes(self, slots: Array, counts: Array) -> pa.RecordBatch:
        """What is other in the rows with their turns and signs, each as often as it is there: -D before +I."""
        after = self._rows.counts[slots]
        before = after - counts
        comes = np.maximum(after, 0) - np.maximum(before, 0)
        goes = np.maximum(-after, 0) - np.maximum(-before, 0)
        places = np.tile(np.arange(len(slots)), 2)
        signs = np.repeat(np.array([1, -1], dtype=np.int64), len(slots))
        times = np.concatenate([comes, goes])
        order = np.argsort(times > 0, kind="stable")
        order = np.repeat(order, np.abs(times[order]))
        columns = self._rows.columns(slots[places[order]], range(self._width + 1))
        kinds = np.where(times[order] > 0, int(RowKind.INSERT), int(RowKind.DELETE)).astype(np.int8)
        arrays = [*columns, to_array(pa.int64(), signs[order]), pa.array(kinds)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def forget(self) -> None:
        """What comes and goes no more."""
        self._rows.sweep(self._touched)


class _Result:
    """The changes of the queries that are read. State: none between two batches."""

    def __init__(self, spec: MutualIterateSpec, context: OperatorContext, *, has_kinds: bool) -> None:
        self._spec = spec
        self._has_kinds = has_kinds
        mode = ChangelogMode.RETRACT if has_kinds else ChangelogMode.INSERT_ONLY
        self._schema = to_arrow_schema(context.output_schema, mode)
        self._held: dict[int, list[pa.RecordBatch]] = {query: [] for query in spec.read}
        self._schemas = {
            query: to_arrow_schema(spec.columns[query], ChangelogMode.RETRACT) for query in spec.read
        }
        self.bytes = 0

    def add(self, query: int, columns: list[pa.Array], counts: Array) -> None:
        kinds = np.where(counts > 0, int(RowKind.INSERT), int(RowKind.DELETE)).astype(np.int8)
        rows = pa.RecordBatch.from_arrays([*columns, pa.array(kinds)], schema=self._schemas[query])
        if (np.abs(counts) != 1).any():
            rows = rows.take(pa.array(np.repeat(np.arange(len(counts)), np.abs(counts))))
        self.add_rows(query, rows)

    def add_rows(self, query: int, rows: pa.RecordBatch) -> None:
        if self._has_kinds and not is_changelog(rows):
            rows = with_row_kinds(rows, RowKind.INSERT)
        self._held[query].append(rows)
        self.bytes += rows.nbytes

    def emit(self, output: Output) -> None:
        for query, batches in self._held.items():
            if batches:
                changes = pa.concat_batches(batches)
                batches.clear()
                # Without rounds a row has one change at most.
                if self._spec.has_rounds:
                    changes = net_changes(changes)
                emit_pieces(self._widened(query, changes), output)
        self.bytes = 0

    def _widened(self, query: int, changes: pa.RecordBatch) -> pa.RecordBatch:
        width = len(self._spec.columns[query])
        own, kinds = changes.columns[:width], changes.columns[width:]
        if len(self._spec.read) == 1:
            return pa.RecordBatch.from_arrays(changes.columns, schema=self._schema)
        rows = changes.num_rows
        columns = [pa.array(np.full(rows, query, dtype=np.int32))]
        for each in self._spec.read:
            types = to_arrow_schema(self._spec.columns[each]).types
            columns += own if each == query else [pa.nulls(rows, t) for t in types]
        return pa.RecordBatch.from_arrays([*columns, *kinds], schema=self._schema)
