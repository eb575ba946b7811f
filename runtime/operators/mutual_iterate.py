"""Recursive queries that read each other: rounds of them until nothing changes, within one operator."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sqlstream import config as options
from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.runtime.kernels.buffers import view_values
from sqlstream.runtime.operators.inner_chain import InnerChain
from sqlstream.runtime.operators.iterate import (
    NewRows,
    PendingRounds,
    endless,
    too_large,
)
from sqlstream.runtime.operators.operator import OperatorContext, Output
from sqlstream.runtime.operators.peers import Peers
from sqlstream.runtime.operators.rows_of_turns import SIGN, TURN, ResultOfQueries, RowsOfTurns
from sqlstream.runtime.operators.settled_rows import BetterRows, SupportedRows
from sqlstream.runtime.operators.supersteps import SuperstepOperator
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.schema import Field, Schema
from sqlstream.specs.iterate import MutualIterateSpec


class MutualIterate(SuperstepOperator[MutualIterateSpec]):
    """Runs the turns of the queries in which a row comes or goes otherwise than before, in ascending order, each once: what a
    turn makes belongs to later ones. So turns that stay as they are cost nothing, and what was made of a row goes with it, in
    a circle too: a row is made of what came in earlier turns alone.

    State: that of the queries' operators, and for each query how often each row comes or goes in each turn.
    """

    mode = ChangelogMode.RETRACT
    columns_behind: tuple[Field, ...] = (TURN, SIGN)
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
        self._result = ResultOfQueries(spec, context, has_kinds=not is_growing)
        self._summed_in = ", ".join(spec.names) if spec.has_sums else ""
        self._declare()
        self._rounds_max = spec.rounds_max or int(
            options.get(context.config, "sqlstream.recursion.max-rounds")
        )
        self._ends_early = bool(spec.rounds_max) and not spec.is_error

    def _declare(self) -> None:
        columns = enumerate(self.spec.columns)
        self._rows = [
            RowsOfTurns(number, schema, self.context, self._placement(number)) for number, schema in columns
        ]

    def _placement(self, query: int) -> tuple[int, ...]:
        return self.spec.placements[query] if self.spec.placements else ()

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
            else NewRows(schema, self.context, name, self._placement(number))
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


_RANK_MAX = 1 << 62


class RankedIterate(MutualIterate):
    """Lets rows go that no row of a lower rank supports any more, then keys take the best rows that they are made with, until
    there are none that are better. Either is done for all rows of a query at once.

    State: that of the queries' operators, and that of `SupportedRows` of each query.
    """

    columns_behind = (TURN,)

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


def make_mutual_iterate(spec: MutualIterateSpec, context: OperatorContext) -> MutualIterate:
    if spec.has_rounds:
        return MutualIterate(spec, context)
    return RankedIterate(spec, context) if spec.has_ranks else GrowingIterate(spec, context)
