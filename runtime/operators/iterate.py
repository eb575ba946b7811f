"""A recursive query: rounds of its step until there are no more rows, within one operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from sqlstream import config as options
from sqlstream.arrow import (
    is_changelog,
    row_kinds,
    signs_of,
    to_arrow_schema,
    with_row_kinds,
    without_row_kinds,
)
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.errors import UserError
from sqlstream.runtime.evaluate.nested_keys import identities, identity_types
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.memory.array_memory import memory_in_force
from sqlstream.runtime.operators.equal_values import batch_groups
from sqlstream.runtime.operators.inner_chain import InnerChain
from sqlstream.runtime.operators.operator import OperatorContext, Output
from sqlstream.runtime.operators.peers import Peers
from sqlstream.runtime.operators.supersteps import SuperstepOperator
from sqlstream.runtime.state.operator_state import SavesNothing
from sqlstream.runtime.state.snapshots.snapshot import SavedTables
from sqlstream.runtime.state.storage.arrays import Array, distinct, grown
from sqlstream.runtime.state.storage.slot_columns import NumberColumn
from sqlstream.runtime.state.tables.keyed_multiset import KeyedMultiset
from sqlstream.runtime.state.tables.keyed_table import KeyedTable
from sqlstream.schema import Field, Schema
from sqlstream.specs.iterate import ROUND_COLUMN, IterateSpec
from sqlstream.types import BIGINT

PIECE_ROWS = 1 << 16
LAZY_ROUNDS = 64
_NOWHERE = -1


class Iterate(SuperstepOperator[IterateSpec]):
    """Runs the step of a recursive query for the rows of round after round.

    State: that of the step's operators, and what decides which rows a round has (see the classes below).
    """

    def __init__(self, spec: IterateSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._mode = ChangelogMode.INSERT_ONLY if spec.is_insert_only else ChangelogMode.RETRACT
        columns = context.output_schema
        if spec.has_rounds:
            columns = Schema((*columns.fields, Field(ROUND_COLUMN, BIGINT.not_null())))
        tables = zip(context.input_schemas[1:], context.input_modes[1:], strict=True)
        inputs = [(columns, self._mode), *tables]
        # Rows of which each counts need not meet, unless some go: they stay where they are made, until the step reads them.
        self._meets = spec.is_distinct or not spec.is_insert_only
        placements = spec.placements if self._meets else ((), *spec.placements[1:])
        self._chain = InnerChain(spec.operators, spec.results, context, inputs, placements)
        self._round_schema = to_arrow_schema(columns, self._mode)
        self._pending = context.state.add(PendingRounds([to_arrow_schema(context.output_schema, self._mode)]))
        self._rows = _rows_of_rounds(spec, context)
        self._rounds_max = int(options.get(context.config, "sqlstream.recursion.max-rounds"))

    # -- input -------------------------------------------------------------------------------------

    def _feed(self, batch: pa.RecordBatch, input_index: int) -> None:
        if input_index == 0:
            self._pending.append(0, batch)
        else:
            self._chain.feed(input_index, batch)
            if self._peers is None:
                self._take(0)

    @property
    def _waiting_alone(self) -> int:
        return self._pending.rows

    def on_end_of_input(self, input_index: int, output: Output) -> None:
        if input_index:
            self._chain.end(input_index)

    def on_restored(self) -> None:
        self._chain.on_restored()
        self._rows.on_restored()

    def close(self) -> None:
        self._chain.close()
        super().close()

    # -- among peers -------------------------------------------------------------------------------

    def _run_together(self, peers: Peers, output: Output) -> None:
        round_ = self._meet(peers, 0)
        while round_ is not None:
            self._check_round(round_)
            if self._next_round() == round_:
                self._admit(round_, output)
            round_ = self._meet(peers, round_)
        self._rows.emit(output)

    def _meet(self, peers: Peers, round_: int) -> int | None:
        """Exchange with all peers what the step has made of rows of this round; the next round of all."""
        self._chain.cross(peers)
        made = [batch for _, batch in self._chain.take()]
        if self._meets:
            rounds = [self._rounds_of(batch).min() for batch in made] if self.spec.has_rounds else []
            next_round = int(min(rounds, default=round_)) + 1 if made else None
            came = peers.exchange(self.spec.placements[0], made, self._next_round(next_round))
            made = [came] if came is not None else []
            self._put(round_, made)
        else:
            self._put(round_, made)
            peers.exchange((), (), self._next_round())
        self._check_bytes()
        return peers.next_round

    # -- rounds ------------------------------------------------------------------------------------

    def _run_alone(self, output: Output) -> None:
        while (round_ := self._next_round()) is not None:
            self._check_round(round_)
            self._run(round_, output)
            self._check_bytes()
        self._rows.emit(output)

    def run_one_round(self, output: Output) -> None:
        """Forget what comes behind it: rows that are made up may make others without end."""
        round_ = self._next_round()
        if round_ is not None:
            self._run(round_, output)
        self._pending.forget()
        self._rows.emit(output)

    def _run(self, round_: int, output: Output) -> None:
        self._admit(round_, output)
        self._take(round_)

    def _admit(self, round_: int, output: Output) -> None:
        changes = self._rows.admit(round_, self._pending.take(round_), output)
        if changes is not None and changes.num_rows:
            self._chain.feed(0, self._of_round(changes, round_))

    def _next_round(self, other: int | None = None) -> int | None:
        rounds = (self._pending.next_round, self._rows.next_round, other)
        return min((each for each in rounds if each is not None), default=None)

    def _of_round(self, changes: pa.RecordBatch, round_: int) -> pa.RecordBatch:
        if not self.spec.has_rounds:
            return changes
        columns, kinds = changes.columns, []
        if is_changelog(changes):
            columns, kinds = columns[:-1], columns[-1:]
        rounds = to_array(pa.int64(), np.full(changes.num_rows, round_, dtype=np.int64))
        return pa.RecordBatch.from_arrays([*columns, rounds, *kinds], schema=self._round_schema)

    def _take(self, round_: int) -> None:
        self._put(round_, (batch for _, batch in self._chain.take()))

    def _put(self, round_: int, made: Iterable[pa.RecordBatch]) -> None:
        """What the step has made goes to the rounds behind those of the rows that it is made of."""
        for batch in made:
            if not self.spec.has_rounds:
                self._pending.append(round_ + 1, batch)
                continue
            rounds = self._rounds_of(batch)
            rows = batch.remove_column(len(self.context.output_schema))
            for each in distinct(rounds).tolist():
                is_of_round = rounds == each
                self._pending.append(
                    each + 1, rows if is_of_round.all() else rows.filter(pa.array(is_of_round))
                )

    def _rounds_of(self, made: pa.RecordBatch) -> Array:
        return view_values(made.column(len(self.context.output_schema)), np.int64)

    def _check_round(self, round_: int) -> None:
        if round_ > self._rounds_max + self._rows.lazy_rounds:
            raise self._endless()

    def _endless(self) -> UserError:
        return endless(self.spec.name, self._rounds_max)

    def _check_bytes(self) -> None:
        if self._pending.bytes + self._rows.bytes + self._chain.bytes > self._bytes_max:
            raise too_large(self.spec.name, self._bytes_max)


def endless(name: str, rounds_max: int) -> UserError:
    return UserError(
        "SS5400",
        f'the recursive query "{name}" has more than {rounds_max} rounds',
        hint="stop the step by a WHERE, or write UNION instead of UNION ALL where rows go in a circle; longer chains need"
        f" SET 'sqlstream.recursion.max-rounds' = '{rounds_max * 10}'",
    )


def too_large(name: str, bytes_max: int) -> UserError:
    return UserError(
        "SS5401",
        f'the rows of a round of the recursive query "{name}" take more than {bytes_max >> 20} MB',
        hint="stop the step by a WHERE, or write UNION instead of UNION ALL where many rows are the same; else raise"
        " 'sqlstream.recursion.max-pending-bytes'",
    )


class PendingRounds(SavesNothing):
    """Changes of the rows of rounds that are still to be run. Implements `StateTable`: its bytes count, but nothing of it is
    saved, as `flush` comes before a snapshot. Rounds have the columns of `schemas` in turn.

    State: the batches by round, until `take`."""

    name = "pending"

    def __init__(self, schemas: Sequence[pa.Schema]) -> None:
        self._schemas = schemas
        self._batches: dict[int, list[pa.RecordBatch]] = {}
        self.rows = 0
        self.bytes = 0

    @property
    def next_round(self) -> int | None:
        return min(self._batches, default=None)

    def append(self, round_: int, batch: pa.RecordBatch) -> None:
        schema = self._schemas[round_ % len(self._schemas)]
        if len(batch.columns) < len(schema):
            batch = with_row_kinds(batch, RowKind.INSERT)
        # Types are the same; what is said of names and NULL in each may differ.
        batch = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        self._batches.setdefault(round_, []).append(batch)
        self.rows += batch.num_rows
        self.bytes += batch.nbytes

    def take(self, round_: int) -> pa.RecordBatch | None:
        batches = self._batches.pop(round_, None)
        if batches is None:
            return None
        self.rows -= sum(batch.num_rows for batch in batches)
        self.bytes -= sum(batch.nbytes for batch in batches)
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)

    def forget(self) -> None:
        self._batches.clear()
        self.rows = self.bytes = 0

    def save_later(self) -> Callable[[], SavedTables]:
        assert not self._batches
        return super().save_later()

    def nbytes(self) -> int:
        return self.bytes


# Which rows a round has.


class RowsOfRounds(Protocol):
    """Decides which of the rows that the step makes are rows of a round, and what of them is new in the result."""

    @property
    def lazy_rounds(self) -> int:
        """By how many rounds a row may be behind the first one that could make it."""

    @property
    def next_round(self) -> int | None:
        """The first round that it wants to decide anew, though no row of it has changed."""

    @property
    def bytes(self) -> int:
        """What it holds until `emit`."""

    def admit(self, round_: int, batch: pa.RecordBatch | None, output: Output) -> pa.RecordBatch | None:
        """The changes of the rows of the round, of those of the rows that were made for it. Rounds come in ascending order."""

    def emit(self, output: Output) -> None:
        """The changes of the result since the last call."""

    def on_restored(self) -> None: ...


def _rows_of_rounds(spec: IterateSpec, context: OperatorContext) -> RowsOfRounds:
    if not spec.is_distinct:
        return EveryRow()
    return (
        RankedRows(context, is_exact=not spec.is_linear)
        if spec.has_rounds
        else NewRows(context.output_schema, context)
    )


class EveryRow:
    """UNION ALL: each row that is made. Changes that cancel each other out are left out. State: none between two batches."""

    next_round = None
    lazy_rounds = 0

    def __init__(self) -> None:
        self._held: list[pa.RecordBatch] = []
        self.bytes = 0

    def admit(self, round_: int, batch: pa.RecordBatch | None, output: Output) -> pa.RecordBatch | None:
        assert batch is not None
        if not is_changelog(batch):
            output.emit(batch)
            return batch
        changes = net_changes(batch)
        if changes.num_rows:
            self._held.append(changes)
            self.bytes += changes.nbytes
        return changes

    def emit(self, output: Output) -> None:
        if self._held:
            held, self._held, self.bytes = self._held, [], 0
            emit_pieces(net_changes(pa.concat_batches(held)), output)

    def on_restored(self) -> None:
        return None


class NewRows:
    """UNION of rows that are never retracted: each row once, in the first round that makes it. State: the rows, by the key groups
    of the columns `placement`, without any by those of all columns."""

    next_round = None
    lazy_rounds = 0
    bytes = 0

    def __init__(
        self,
        columns: Schema,
        context: OperatorContext,
        name: str = "rows",
        placement: tuple[int, ...] = (),
    ) -> None:
        self._keys = (*placement, *(c for c in range(len(columns)) if c not in placement))
        keys, scope = _identities(columns.select(self._keys)), context.state.scope
        self._seen = context.state.add(KeyedTable(name, keys, [], scope, placed_by=len(placement) or -1))

    def admit(self, round_: int, batch: pa.RecordBatch | None, output: Output) -> pa.RecordBatch | None:
        assert batch is not None
        new = self.new_of(batch)
        output.emit(new)
        return new

    def new_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that there were not, each once."""
        slots, is_new = self._seen.get_or_create(identities([batch.column(k) for k in self._keys]))
        self._seen.writing(np.unique(slots[is_new]))
        return batch if is_new.all() else batch.filter(pa.array(is_new))

    def emit(self, output: Output) -> None:
        return None

    def on_restored(self) -> None:
        return None


class RankedRows:
    """UNION of rows that may be retracted: a row is one of a round that makes it, and of no other.

    A row stays in its round as long as that round or an earlier one makes it: what it is made of there does not depend on it.
    When none does it leaves, and with it what was made of it; only when a later round comes that makes it too is it a row of
    that one. So rows that make each other in a circle all go when nothing else makes them.
    With `is_exact` a row is always one of the first round that makes it, for steps that ask which rows of a round there are. Else
    that matters to nobody, and only rows of rounds behind LAZY_ROUNDS move to an earlier one. So rounds do not rise without end
    as rows come and go: by induction, a row is at most LAZY_ROUNDS behind the first round that could make it.
    State: how often each row is made in each round, and the round of each row of the result.
    """

    def __init__(self, context: OperatorContext, *, is_exact: bool) -> None:
        self.lazy_rounds = 0 if is_exact else LAZY_ROUNDS
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
        self._width = len(context.output_schema)
        scope = context.state.scope
        with_round = Schema((*context.output_schema.fields, Field(ROUND_COLUMN, BIGINT.not_null())))
        self._made = context.state.add(
            KeyedMultiset(
                "rows", to_arrow_schema(with_round), tuple(range(self._width)), scope, list_length=0
            )
        )
        self._rounds = NumberColumn(ROUND_COLUMN, pa.int64())
        self._result = context.state.add(
            KeyedTable("result", _identities(context.output_schema), [self._rounds], scope)
        )
        self._memory = memory_in_force()
        # By key slot the round of the row and the row slot for it; by row slot whether the step has the row in that round.
        self._round: Array = np.empty(0, dtype=np.int64)
        self._place: Array = np.empty(0, dtype=np.int64)
        self._is_in: Array = np.empty(0, dtype=bool)
        self._scheduled: dict[int, list[Array]] = {}
        self._touched: list[Array] = []
        self._changed: list[tuple[Array, Array]] = []
        self.bytes = 0

    @property
    def next_round(self) -> int | None:
        return min(self._scheduled, default=None)

    def on_restored(self) -> None:
        self._resize(self._made.key_slots(), self._made.rows.slots())
        slots = self._result.slots()
        if len(slots):
            rounds = self._rounds.values[slots]
            rows = self._made.rows.index.get([*self._result.keys(slots), to_array(pa.int64(), rounds)])
            keys = self._made.keys_of(rows)
            self._round[keys], self._place[keys], self._is_in[rows] = rounds, rows, True

    def _resize(self, keys: Array, rows: Array) -> None:
        count = int(keys.max(initial=-1)) + 1
        self._round = grown(self._round, count, _NOWHERE, self._memory)
        self._place = grown(self._place, count, _NOWHERE, self._memory)
        self._is_in = grown(self._is_in, int(rows.max(initial=-1)) + 1, False, self._memory)

    def _rounds_of(self, rows: Array) -> Array:
        return view_values(self._made.rows.columns(rows, [self._width])[0], np.int64)

    def admit(self, round_: int, batch: pa.RecordBatch | None, output: Output) -> pa.RecordBatch | None:
        touched = self._scheduled.pop(round_, [])
        if batch is not None:
            rounds = to_array(pa.int64(), np.full(batch.num_rows, round_, dtype=np.int64))
            made = batch.add_column(self._width, pa.field(ROUND_COLUMN, pa.int64(), nullable=False), rounds)
            keys, rows = self._made.apply(made)
            self._resize(keys, rows)
            touched.append(rows)
        rows = distinct(np.concatenate(touched))
        self._touched.append(rows)
        return self._settle(round_, rows)

    def _settle(self, round_: int, rows: Array) -> pa.RecordBatch | None:
        """Decide about rows that may have come to the round or left it. What earlier rounds make is final."""
        keys = self._made.keys_of(rows)
        before = self._round[keys]
        is_made = self._made.rows.counts[rows] > 0
        was_in = self._is_in[rows]
        is_in = is_made & ((before == _NOWHERE) | (before == round_))
        is_later = before > round_
        moves = is_made & is_later & (before > self.lazy_rounds)
        is_in |= moves
        doubtful = np.flatnonzero(was_in & ~is_made & (before == round_))
        if len(doubtful):
            is_in[doubtful] = self._is_made_before(keys[doubtful], round_)
        # A row that moves is still in its old round, and one that this round made may be in a later one for that reason alone.
        asked = moves | (is_later & ~is_made)
        if asked.any():
            self._schedule(before[asked], self._place[keys[asked]])
        enters, leaves = is_in & ~was_in, was_in & ~is_in
        self._is_in[rows] = is_in
        self._round[keys[enters]] = round_
        self._place[keys[enters]] = rows[enters]
        self._round[keys[leaves & (before == round_)]] = _NOWHERE
        homeless = keys[self._round[keys] == _NOWHERE]
        if len(homeless):
            self._schedule_next(homeless, round_)
        changed = np.flatnonzero(enters | leaves)
        if not len(changed):
            return None
        # Rows that leave stand first.
        changed = changed[np.argsort(enters[changed], kind="stable")]
        signs = np.where(enters[changed], 1, -1).astype(np.int64)
        self._changed.append((rows[changed], signs))
        self.bytes += 2 * signs.nbytes
        return self._changes(rows[changed], signs)

    def _is_made_before(self, keys: Array, round_: int) -> Array:
        """bool[n]: whether an earlier round makes the rows of these distinct keys."""
        positions, rows = self._made.match(keys)
        is_made = (self._rounds_of(rows) < round_) & (self._made.rows.counts[rows] > 0)
        found = np.zeros(len(keys), dtype=bool)
        found[positions[is_made]] = True
        return found

    def _schedule_next(self, keys: Array, round_: int) -> None:
        """Let the next round that makes a row decide about it."""
        positions, rows = self._made.match(keys)
        rounds = self._rounds_of(rows)
        is_later = (rounds > round_) & (self._made.rows.counts[rows] > 0)
        positions, rows, rounds = positions[is_later], rows[is_later], rounds[is_later]
        order = np.lexsort((rounds, positions))
        ordered = positions[order]
        first = order[np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(order)]]
        self._schedule(rounds[first], rows[first])

    def _schedule(self, rounds: Array, rows: Array) -> None:
        for each in distinct(rounds).tolist():
            self._scheduled.setdefault(each, []).append(rows[rounds == each])

    def _changes(self, rows: Array, signs: Array) -> pa.RecordBatch:
        columns = self._made.rows.columns(rows, range(self._width))
        kinds = np.where(signs > 0, int(RowKind.INSERT), int(RowKind.DELETE)).astype(np.int8)
        return pa.RecordBatch.from_arrays([*columns, pa.array(kinds)], schema=self._schema)

    def emit(self, output: Output) -> None:
        """A row that only has another round is the same row."""
        if self._changed:
            rows = np.concatenate([rows for rows, _ in self._changed])
            signs = np.concatenate([signs for _, signs in self._changed])
            self._changed, self.bytes = [], 0
            keys, first, groups = np.unique(self._made.keys_of(rows), return_index=True, return_inverse=True)
            self._keep(keys, rows[first])
            net = np.bincount(groups, weights=signs, minlength=len(keys)).astype(np.int64)
            order = np.argsort(net, kind="stable")
            order = order[net[order] != 0]
            if len(order):
                emit_pieces(self._changes(rows[first[order]], net[order]), output)
        if self._touched:
            touched, self._touched = np.concatenate(self._touched), []
            self._made.sweep(touched[~self._is_in[touched]])

    def _keep(self, keys: Array, rows: Array) -> None:
        """Save the rounds of these distinct keys, each of which one of the rows has."""
        columns = self._made.rows.columns(rows, range(self._width))
        slots, _ = self._result.get_or_create(identities(columns))
        self._result.writing(slots)
        self._rounds.values[slots] = self._round[keys]
        self._result.forget(slots[self._round[keys] == _NOWHERE])


def emit_pieces(batch: pa.RecordBatch, output: Output) -> None:
    """Emit batches of the size that a source gives: a change may have added or taken any number of rows."""
    for start in range(0, batch.num_rows, PIECE_ROWS):
        output.emit(batch.slice(start, PIECE_ROWS))


def _identities(columns: Schema) -> pa.Schema:
    """The columns of the rows, nested ones as the bytes by which they are found."""
    schema = to_arrow_schema(columns)
    types = identity_types(schema)
    return pa.schema([field.with_type(t) for field, t in zip(schema, types, strict=True)])


def net_changes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The changes without those that cancel each other out: -D before +I, each as often as it is left."""
    kinds = row_kinds(batch)
    signs = signs_of(kinds)
    if (signs == signs[:1]).all():
        return batch
    rows = without_row_kinds(batch)
    groups, first = batch_groups(identities(rows.columns), rows.num_rows)
    net = np.bincount(groups, weights=signs, minlength=len(first)).astype(np.int64)
    order = np.argsort(net, kind="stable")
    repeated = np.repeat(order, np.abs(net[order]))
    kinds = np.where(net[repeated] > 0, int(RowKind.INSERT), int(RowKind.DELETE)).astype(np.int8)
    return with_row_kinds(rows.take(to_array(pa.int64(), first[repeated])), kinds)
