"""Rows with a column of operations as the changelog that they make."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlstream.changelog import RowKind
from sqlstream.planner.lower.engine import refuse
from sqlstream.planner.relational.node import SingleInputNode
from sqlstream.planner.relational.scan import TableScan
from sqlstream.planner.relational.trimming import Columns, Pruning, one_column, over_input, places_of
from sqlstream.planner.relational.wording import columns_text, join_parts

if TYPE_CHECKING:
    from sqlglot import exp

    from sqlstream.planner.lower.lowering import Lowering
    from sqlstream.planner.relational.node import RelationalNode
    from sqlstream.planner.relational.trimming import Trimmed


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FromChangelog(SingleInputNode):
    """The columns of the input but `op`, whose texts `codes` translate into the kinds of the rows. With `keys`, columns of the
    input, which come first, a row replaces the one with its key; a row with another text fails the job unless
    `skips_invalid`."""

    op: int
    codes: tuple[tuple[str, RowKind], ...]
    keys: tuple[int, ...]
    skips_invalid: bool

    @property
    def columns(self) -> tuple[int, ...]:
        """The column of the input that each one of the output is."""
        return ordered_columns(len(self.input.schema), self.op, self.keys)

    def describe(self) -> str:
        codes = ", ".join(f"{code}={kind.symbol}" for code, kind in self.codes)
        return join_parts(
            f"op=[${self.op}]",
            f"mapping=[{codes}]",
            f"keys=[{columns_text(self.keys)}]" if self.keys else "",
            "invalid=[SKIP]" if self.skips_invalid else "",
        )

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        raise refuse(lowering.engine.title, "FROM_CHANGELOG, as a batch has no changes", span=self.span)

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        wanted = wanted or one_column(self.schema)
        columns = self.columns
        below = frozenset(columns[c] for c in wanted) | frozenset(self.keys)
        source, places = pruning.trim(self.input, below | {self.op}, time)
        op, keys = places[self.op], tuple(places[k] for k in self.keys)
        # Columns that the input has beyond those that it was asked for are passed on, too.
        order = ordered_columns(len(source.schema), op, keys)
        found = {places[c]: c for c in below}
        made = over_input(
            self,
            source,
            schema=source.schema.select(order),
            op=op,
            keys=keys,
        )
        output = {found[i]: new for new, i in enumerate(order) if i in found}
        return made, {c: output[i] for c, i in enumerate(columns) if i in output}

    def origin(self, column: int) -> tuple[RelationalNode, int] | None:
        return self.input, self.columns[column]


def ordered_columns(count: int, op: int, keys: tuple[int, ...]) -> tuple[int, ...]:
    """Of so many columns those of the keys, then the others but `op`."""
    return (*keys, *(i for i in range(count) if i != op and i not in keys))


# A changelog as rows, each with its operation.


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ToChangelog(SingleInputNode):
    """The columns of `keys`, the operation of each change, then the other columns of the input. `codes` has a text for each
    RowKind; changes without one are left out. The rows of equal `keys` come from one subtask."""

    codes: tuple[str | None, ...]
    keys: tuple[int, ...]

    def describe(self) -> str:
        codes = ", ".join(
            f"{kind.symbol}={code}"
            for kind, code in zip(RowKind, self.codes, strict=True)
            if code is not None
        )
        return join_parts(f"mapping=[{codes}]", f"keys=[{columns_text(self.keys)}]" if self.keys else "")

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        raise refuse(lowering.engine.title, "TO_CHANGELOG, as a batch has no changes", span=self.span)

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        if isinstance(self.input, TableScan) and self.input.keeps_events:
            return self._of_events(pruning, wanted, time)
        # Which changes there are depends on all columns, whether they are read or not.
        every = frozenset(range(len(self.input.schema)))
        source = pruning.exactly(self.input, every, time)
        made = over_input(self, source, schema=self.schema)
        return made, {i: i for i in range(len(self.schema))}

    def _of_events(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        """Of a source that has the changes as they are: the columns that are read."""
        assert not self.keys
        read = frozenset(column - 1 for column in wanted if column)
        read = read or one_column(self.input.schema)
        source = pruning.exactly(self.input, read, time)
        kept = tuple(sorted(read))
        inner = places_of(kept)
        node = dataclasses.replace(
            self,
            input=source,
            schema=self.schema.select((0, *(column + 1 for column in kept))),
        )
        return node, {0: 0} | {column + 1: place + 1 for column, place in inner.items()}
