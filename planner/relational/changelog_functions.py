"""Rows with a column of operations as the changelog that they make."""

from __future__ import annotations

import dataclasses

from sqlstream.changelog import RowKind
from sqlstream.graph.stream_graph import FORWARD
from sqlstream.planner.physical.description import describe, describe_columns
from sqlstream.planner.physical.node import Columns, PhysicalNode, Traits
from sqlstream.planner.physical.planning import Planning, hash_or_singleton, over
from sqlstream.planner.physical.refusals import require_insert_only
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.planner import Inputs
from sqlstream.planner.relational.scan import TableScan, normalized
from sqlstream.specs.changelog_functions import FromChangelogSpec, ToChangelogSpec


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FromChangelog(base.SingleInputNode):
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
        return base.join_parts(
            f"op=[${self.op}]",
            f"mapping=[{codes}]",
            f"keys=[{base.columns_text(self.keys)}]" if self.keys else "",
            "invalid=[SKIP]" if self.skips_invalid else "",
        )

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        wanted = wanted or base.one_column(self.schema)
        columns = self.columns
        below = frozenset(columns[c] for c in wanted) | frozenset(self.keys)
        source, places = pruning.trim(self.input, below | {self.op}, time)
        op, keys = places[self.op], tuple(places[k] for k in self.keys)
        # Columns that the input has beyond those that it was asked for are passed on, too.
        order = ordered_columns(len(source.schema), op, keys)
        found = {places[c]: c for c in below}
        made = base.over_input(
            self,
            source,
            schema=source.schema.select(order),
            op=op,
            keys=keys,
        )
        output = {found[i]: new for new, i in enumerate(order) if i in found}
        return made, {c: output[i] for c, i in enumerate(columns) if i in output}

    def origin(self, column: int) -> tuple[base.RelationalNode, int] | None:
        return self.input, self.columns[column]


def ordered_columns(count: int, op: int, keys: tuple[int, ...]) -> tuple[int, ...]:
    """Of so many columns those of the keys, then the others but `op`."""
    return (*keys, *(i for i in range(count) if i != op and i not in keys))


# A changelog as rows, each with its operation.


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ToChangelog(base.SingleInputNode):
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
        return base.join_parts(
            f"mapping=[{codes}]", f"keys=[{base.columns_text(self.keys)}]" if self.keys else ""
        )

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        if isinstance(self.input, TableScan) and self.input.keeps_events:
            return self._of_events(pruning, wanted, time)
        # Which changes there are depends on all columns, whether they are read or not.
        every = frozenset(range(len(self.input.schema)))
        source = pruning.exactly(self.input, every, time)
        made = base.over_input(self, source, schema=self.schema)
        return made, {i: i for i in range(len(self.schema))}

    def _of_events(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        """Of a source that has the changes as they are: the columns that are read."""
        assert not self.keys
        read = frozenset(column - 1 for column in wanted if column)
        read = read or base.one_column(self.input.schema)
        source = pruning.exactly(self.input, read, time)
        kept = tuple(sorted(read))
        inner = base.places_of(kept)
        node = dataclasses.replace(
            self,
            input=source,
            schema=self.schema.select((0, *(column + 1 for column in kept))),
        )
        return node, {0: 0} | {column + 1: place + 1 for column, place in inner.items()}


# FROM_CHANGELOG and TO_CHANGELOG.


def plan_from_changelog(planning: Planning, inputs: Inputs, node: FromChangelog) -> PhysicalNode:
    """With keys the changes are by key, and become a changelog of whole rows. UserError SS3011 for rows that change already."""
    source = inputs[0]
    require_insert_only(source, "FROM_CHANGELOG", node.span)
    kinds = tuple(kind for _, kind in node.codes)
    places = {column: frozenset({place}) for place, column in enumerate(node.columns)}
    is_insert_only = all(kind is RowKind.INSERT for kind in kinds) and not node.keys
    traits = source.traits.projected(places)
    if not is_insert_only:
        # Row times may lie behind those of the rows that they replace, and are behind the watermark then.
        traits = Traits(False, source.traits.is_bounded, times=traits.times, is_by_key=bool(node.keys))
    made = planning.node(
        "FromChangelog",
        FromChangelogSpec(
            node.op,
            tuple(code for code, _ in node.codes),
            tuple(int(kind) for kind in kinds),
            node.skips_invalid,
            node.keys,
        ),
        over(source),
        node.schema,
        dataclasses.replace(traits, row_watermark_column=-1),
        describe(
            "FromChangelog",
            op=source.schema.names[node.op],
            mapping=f"[{', '.join(f'{code}={kind.symbol}' for code, kind in node.codes)}]",
        ),
        node.span,
    )
    if not node.keys:
        return made
    return normalized(planning, made, tuple(range(len(node.keys))), (), node.span, keeps_changes=True)


def plan_to_changelog(planning: Planning, inputs: Inputs, node: ToChangelog) -> PhysicalNode:
    """Every change of the input is a row."""
    source = inputs[0]
    mapping = zip(RowKind, node.codes, strict=True)
    return planning.node(
        "ToChangelog",
        ToChangelogSpec(node.codes, node.keys),
        over(source, hash_or_singleton(node.keys) if node.keys else FORWARD),
        node.schema,
        Traits(is_bounded=source.traits.is_bounded),
        describe(
            "ToChangelog",
            mapping=f"[{', '.join(f'{k.symbol}={code}' for k, code in mapping if code is not None)}]",
            keys=describe_columns(node.keys, source.schema) if node.keys else "",
        ),
        node.span,
    )
