"""By what each operator's state is found again, also by another statement (see sqlstream.graph.state_identity)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from sqlstream import specs
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import Span
from sqlstream.expressions import inputs_of
from sqlstream.functions.aggregates import accumulator_fields
from sqlstream.graph.state_identity import Aspect, ExpiredState, KeptRows, StateIdentity
from sqlstream.planner.physical.description import (
    call_in_words,
    describe_calls,
    describe_columns,
    describe_expression,
    describe_order,
    watermark_columns,
)
from sqlstream.planner.physical.node import PhysicalNode, rebuild_plan, walk_plan
from sqlstream.planner.physical.refusals import ADDITIVE
from sqlstream.planner.physical.row_meanings import (
    Joining,
    Meaning,
    call_meaning,
    digest_of,
    local_phase,
    meanings_of,
    pairing_meaning,
    reading_spec,
    row_meaning,
    type_text,
    window_meaning,
)
from sqlstream.schema import Schema
from sqlstream.secrets import masked
from sqlstream.specs.iterate import inner_table_prefix
from sqlstream.specs.rank import Ties
from sqlstream.specs.sink import COLLECT
from sqlstream.spi.connector import ConnectorDescriptor

Lines = Callable[[Span], int]
Aspects = Callable[[PhysicalNode, Mapping[int, Meaning], str], tuple[Aspect, ...]]


def identify_states(
    sinks: tuple[PhysicalNode, ...],
    connectors: Mapping[str, ConnectorDescriptor],
    line_of: Lines,
    time_zone: str,
    aspects: Aspects | None = None,
    expired: Mapping[int, tuple[ExpiredState, ...]] | None = None,
) -> tuple[PhysicalNode, ...]:
    """The plan with the `state` of every operator that keeps some; shared nodes stay shared. `line_of` tells the line of a place
    in the statement, and `time_zone` is the session's. `aspects` tells those of a state; `expired` by the id() of a node the
    tables of which it keeps the expired rows.

    The plan has its changelog modes, on which depends what an operator keeps."""
    meanings = meanings_of(sinks, time_zone)
    feeds = _feeds(sinks)
    states: dict[int, StateIdentity] = {}
    for node in walk_plan(sinks):
        if _is_stateless(node):
            continue
        read = [meanings[id(i.node)] for i in node.inputs]
        id_, conditions = _identified(node, read, time_zone)
        if isinstance(node.spec, specs.SourceSpec):
            id_ = _source_id(node.spec, meanings[id(node)], connectors[node.spec.connector])
        states[id(node)] = StateIdentity(
            id_,
            state_title(node),
            tuple(sorted(feeds[id(node)])),
            line_of(node.span) if node.span is not None else 0,
            _parts(node, read),
            conditions,
            _rows(node, read),
            aspects(node, meanings, time_zone) if aspects is not None else (),
            (expired or {}).get(id(node), ()),
        )
    return rebuild_plan(sinks, lambda node, made: dataclasses.replace(made, state=states.get(id(node))))


def _identified(node: PhysicalNode, inputs: list[Meaning], time_zone: str) -> tuple[str, tuple[str, ...]]:
    """The id, and the conditions that are left out of it because they only say which keys there are."""
    keys = _keys(node, inputs)
    conditions = inputs[0].conditions_on(keys) if keys else frozenset()
    if conditions:
        inputs = [inputs[0].without(conditions)]
    return _state_id(node, row_meaning(node, inputs, time_zone), inputs), tuple(
        sorted(c.meaning for c in conditions)
    )


def _keys(node: PhysicalNode, inputs: list[Meaning]) -> list[str]:
    """The keys of an operator whose state of one key has nothing to do with that of another. One of windows has none: it writes
    every key that it has when the window closes, also without a row of it."""
    match node.spec:
        case specs.GroupAggregateSpec():
            return inputs[0].of(reading_spec(node).keys)
        case specs.RankSpec() as spec:
            return inputs[0].of(spec.partition_keys)
        case specs.DeduplicateSpec() | specs.ChangelogNormalizeSpec() as spec:
            return inputs[0].of(spec.keys)
        case _:
            return []


def _is_stateless(node: PhysicalNode) -> bool:
    match node.spec:
        case specs.WindowTvfSpec() as spec:
            return spec.window.kind is not specs.WindowKind.SESSION
        case (
            None
            | specs.CalcSpec()
            | specs.DropUpdateBeforeSpec()
            | specs.LookupJoinSpec()
            | specs.ExpandSpec()
            | specs.UnnestSpec()
        ):
            return True
        case specs.ModelPredictSpec() | specs.ProcessOutputSpec():
            return not isinstance(node.spec, specs.RemotePredictSpec)
        case specs.MarkChangesSpec() | specs.FromChangelogSpec() | specs.ToChangelogSpec():
            return True
        case specs.ProcessTableSpec() as spec:
            return not spec.inputs[0].has_set_semantics
        case specs.GroupAggregateSpec() | specs.WindowAggregateSpec() as spec:
            return spec.phase is specs.AggregatePhase.LOCAL
        case specs.RankSpec() | specs.DeduplicateSpec() as spec:
            return spec.phase is specs.RankPhase.LOCAL
        case _:
            return False


def _feeds(sinks: tuple[PhysicalNode, ...]) -> dict[int, frozenset[str]]:
    """The tables that the rows of each node reach, by its id()."""
    found: dict[int, frozenset[str]] = {}
    for node in reversed(list(walk_plan(sinks))):
        if isinstance(node.spec, specs.SinkSpec):
            table = "" if node.spec.connector == COLLECT else node.spec.table
            found[id(node)] = found.get(id(node), frozenset()) | {table}
        for physical_input in node.inputs:
            below = id(physical_input.node)
            found[below] = found.get(below, frozenset()) | found[id(node)]
    return found


def _state_id(node: PhysicalNode, own: Meaning, inputs: list[Meaning]) -> str:
    """Keys, by which rows are distributed, count in their order. Columns of rows do not, and neither do calls (see `_rows`)."""
    match node.spec:
        case specs.SinkSpec() as spec:
            return digest_of("sink", spec.table, spec.connector)
        case specs.WatermarkAssignerSpec() as spec:
            # A later watermark of the same rows, or of more of them, only follows an earlier one.
            if spec.rowtime_column < 0:
                reads = sorted(inputs[0].of(inputs_of(spec.expression)))
                return digest_of("watermark of changes", inputs[0].base, reads)
            return digest_of("watermark", inputs[0].base, inputs[0].columns[spec.rowtime_column])
        case specs.GroupAggregateSpec() | specs.WindowAggregateSpec():
            return _aggregate_id(node, inputs[0])
        case spec if isinstance(spec, Joining):
            pairs = [inputs[0].of(spec.left_keys), inputs[1].of(spec.right_keys)]
            sides = [[sorted(m.columns), _is_insert_only(node, i)] for i, m in enumerate(inputs)]
            # An INNER join keeps rows, whatever pairs they make; the others also which rows have matched.
            rows = pairing_meaning(spec, *inputs) if spec.kind is specs.JoinKind.INNER else own.rows
            return digest_of("join", rows, pairs, sides, getattr(spec, "broadcast_input", -1))
        case specs.RankSpec() | specs.WindowRankSpec() as spec:
            keys = inputs[0].of(spec.partition_keys)
            if isinstance(spec, specs.RankSpec) and spec.ties is not Ties.ANY:
                # The order of its rows is another one.
                keys = [*keys, spec.ties.value]
            return digest_of("rank", own.rows, keys, sorted(inputs[0].columns), _is_insert_only(node, 0))
        case specs.DeduplicateSpec() as spec:
            kept = sorted(inputs[0].columns) if node.settled_mode is ChangelogMode.RETRACT else []
            return digest_of("deduplicate", own.rows, inputs[0].of(spec.keys), kept)
        case specs.KeptValuesSpec() as spec:
            values = own.columns[-len(spec.expressions) :]
            return digest_of("kept_values", own.rows, inputs[0].of(spec.keys), values)
        case specs.ConflictCheckSpec() as spec:
            return digest_of("conflict_check", own.rows, inputs[0].of(spec.keys), spec.table)
        case specs.SingleRowCheckSpec() as spec:
            columns = sorted(inputs[0].columns)
            return digest_of("single_row_check", own.rows, inputs[0].of(spec.distribution), columns)
        case specs.ChangelogNormalizeSpec() as spec:
            return digest_of(
                "changelog_normalize", own.rows, inputs[0].of(spec.keys), sorted(_normalized(spec, inputs[0]))
            )
        case specs.WindowTvfSpec() as spec:
            signed = [] if _is_insert_only(node, 0) else ["retracting"]
            columns = sorted(inputs[0].columns)
            return digest_of("session_rows", own.rows, inputs[0].of(spec.keys), columns, *signed)
        case specs.ProcessTableSpec() as spec:
            # As Flink: the call has a name, and what is around it may change.
            types = node.inputs[0].node.schema.types
            if not spec.uid:
                # A built-in function.
                return digest_of("process_table", own.rows)
            return digest_of(
                "process_table", spec.uid, [type_text(types[k]) for k in spec.inputs[0].partition_keys]
            )
        case specs.SortSpec() | specs.TemporalSortSpec():
            return digest_of("sort", own.rows, sorted(inputs[0].columns), _is_insert_only(node, 0))
        case _:
            return digest_of(node.name, own.rows)


def _source_id(spec: specs.SourceSpec, own: Meaning, descriptor: ConnectorDescriptor) -> str:
    """A position belongs to a table. A number of rows is one of exactly these rows, and a place in a file one of these files."""
    places: list[Any] = []
    if descriptor.reading.counts_rows:
        options = sorted((key, masked(key, value)) for key, value in spec.options.items())
        places = [own.rows, options]
    elif spec.is_bounded:
        places = [spec.options.get(key, "") for key in descriptor.place.options]
    return digest_of("source", spec.table, spec.connector, *places)


def _aggregate_id(node: PhysicalNode, source: Meaning) -> str:
    spec = reading_spec(node)
    keys, calls = source.of(spec.keys), [call_meaning(c, source) for c in spec.aggregates]
    if _accumulators(node, source) is not None:
        calls = sorted(calls)
    if isinstance(spec, specs.GroupAggregateSpec):
        return digest_of("group_aggregate", source.rows, keys, calls, spec.is_retracting)
    # One phase may keep rows where the other keeps partial results.
    is_single = spec is node.spec
    window = window_meaning(spec, source)
    signed = ["retracting"] if spec.is_retracting else []
    # What is kept does not depend on how often it is emitted, nor on how late a row may be.
    emitting = ["emitting"] if spec.emit is not None else []
    return digest_of("window_aggregate", source.rows, keys, calls, window, is_single, *signed, *emitting)


def _accumulators(node: PhysicalNode, source: Meaning) -> list[str] | None:
    """What the accumulator columns of all calls hold, in their order; None when they are not the whole state of the calls."""
    spec, is_two_phases = reading_spec(node), reading_spec(node) is not node.spec
    read = local_phase(node).inputs[0].node if is_two_phases else node.inputs[0].node
    if isinstance(spec, specs.WindowAggregateSpec) and (not is_two_phases or spec.emit is not None):
        return None
    is_retracting = isinstance(spec, specs.GroupAggregateSpec) and spec.is_retracting
    found: list[str] = []
    for call in spec.aggregates:
        fields = accumulator_fields(call, read.schema)
        if fields is None or (is_retracting and call.function not in ADDITIVE):
            return None
        found += [digest_of(call_meaning(call, source), number) for number in range(len(fields))]
    return found


def _rows(node: PhysicalNode, inputs: list[Meaning]) -> tuple[KeptRows, ...]:
    """The tables in which an operator keeps rows of its inputs whole, or one accumulator row per key."""
    match node.spec:
        case spec if isinstance(spec, Joining):
            sides = zip(("left", "right"), inputs, strict=True)
            kept = tuple(KeptRows(name, meaning.columns) for name, meaning in sides)
            if not isinstance(node.spec, specs.SnapshotJoinSpec):
                return kept
            # Changes that wait have their kinds behind them.
            kinds = [""] * (not _is_insert_only(node, 1))
            return (*kept, KeptRows("changes", (*inputs[1].columns, *kinds)))
        case specs.GroupAggregateSpec() | specs.WindowAggregateSpec() as spec:
            accumulators = _accumulators(node, inputs[0])
            if accumulators is None:
                return ()
            columns = (*inputs[0].of(reading_spec(node).keys), *accumulators)
            if isinstance(spec, specs.GroupAggregateSpec):
                return (KeptRows("groups", (*columns, *[""] * spec.is_retracting)),)
            # The end of the slice, and the start of a window that is a column of the rows.
            return (KeptRows("slices", (*columns, *[""] * (1 if spec.time_column >= 0 else 2))),)
        case specs.ChangelogNormalizeSpec() as spec:
            return (KeptRows("rows", _normalized(spec, inputs[0])),)
        case specs.RankSpec() | specs.SortSpec() | specs.TemporalSortSpec():
            return (KeptRows("rows", inputs[0].columns),)
        case specs.DeduplicateSpec() if node.settled_mode is ChangelogMode.RETRACT:
            return (KeptRows("rows", inputs[0].columns),)
        case specs.WindowTvfSpec() if not _is_insert_only(node, 0):
            return (KeptRows("rows", inputs[0].columns),)
        case specs.WindowRankSpec():
            # The end of the window stands behind each row.
            return (KeptRows("rows", (*inputs[0].columns, "")),)
        case _:
            return ()


def _normalized(spec: specs.ChangelogNormalizeSpec, source: Meaning) -> tuple[str, ...]:
    """The columns of the rows that are kept: marks are none of theirs."""
    return source.columns if spec.marks < 0 else source.columns[: spec.marks]


def _is_insert_only(node: PhysicalNode, number: int) -> bool:
    return node.inputs[number].node.settled_mode.is_insert_only


def _finds_sessions(spec: specs.WindowAggregateSpec) -> bool:
    return spec.window.kind is specs.WindowKind.SESSION and spec.time_column >= 0


def _parts(node: PhysicalNode, inputs: list[Meaning]) -> tuple[str, ...]:
    """The names of the tables in which an aggregation keeps the values of its calls, if it keeps any."""
    match node.spec:
        case specs.GroupAggregateSpec() as spec:
            table = "groups"
        case specs.WindowAggregateSpec() as spec if spec.emit is not None and not _finds_sessions(spec):
            table = "windows"
        case specs.IterateSpec() | specs.MutualIterateSpec() as spec:
            return tuple(
                f"{inner_table_prefix(inner, place)}groups.{name}"
                for place, inner in enumerate(spec.operators)
                if isinstance(inner.spec, specs.GroupAggregateSpec)
                for name in inner.schema.names[len(inner.spec.keys) :]
            )
        case _:
            return ()
    if _accumulators(node, inputs[0]) is not None:
        return ()
    first = len(spec.keys)
    return tuple(f"{table}.{name}" for name in node.schema.names[first : first + len(spec.aggregates)])


# The operators of a plan in SQL, for those who are told of their state.


TITLE_MAX = 200


def state_title(node: PhysicalNode) -> str:
    """What keeps the state, such as `GROUP BY bidder (COUNT(*), SUM(price))`; at most TITLE_MAX characters."""
    title = _title(node)
    return title if len(title) <= TITLE_MAX else f"{title[: TITLE_MAX - 1]}…"


def _title(node: PhysicalNode) -> str:
    match node.spec:
        case specs.SourceSpec() as spec:
            return f"the position in table {spec.table}"
        case specs.BackfillSpec() as spec:
            return f"the history of table {spec.table}"
        case specs.SinkSpec() as spec:
            return f"the rows of table {spec.table}"
        case specs.WatermarkAssignerSpec() as spec:
            return f"WATERMARK FOR {', '.join(watermark_columns(spec, node.schema))} of table {_table(node)}"
        case specs.ProcessTableSpec() as spec:
            return (
                spec.ref.name
                if spec.uid in ("", spec.ref.name)
                else f"{spec.ref.name}(…, uid => '{spec.uid}')"
            )
        case specs.GroupAggregateSpec() | specs.WindowAggregateSpec():
            return _aggregate(node)
        case spec if isinstance(spec, Joining):
            return _join(node, spec)
        case specs.RankSpec(ties=Ties.LONGEST | Ties.LAST) as spec:
            keys = bare(describe_columns(spec.partition_keys, node.inputs[0].node.schema))
            return f"the rows of each primary key ({keys})"
        case specs.RankSpec() | specs.DeduplicateSpec() | specs.WindowRankSpec() as spec:
            return _rank(written(node.inputs[0].node), spec)
        case specs.SortSpec() | specs.TemporalSortSpec() as spec:
            return f"ORDER BY {bare(describe_order(spec.order, node.schema))}"
        case specs.OverSpec() as spec:
            return _over(written(node.inputs[0].node), spec)
        case specs.LimitSpec() as spec:
            return f"LIMIT {spec.fetch}"
        case specs.IterateSpec() as spec:
            return f"WITH RECURSIVE {spec.name}"
        case specs.MutualIterateSpec() as spec:
            return f"WITH MUTUALLY RECURSIVE {', '.join(spec.names)}"
        case _:
            return node.name


def bare(bracketed: str) -> str:
    return bracketed[1:-1]


def read_of(node: PhysicalNode) -> tuple[Any, Schema]:
    """The spec of an aggregation, and the columns that it names."""
    spec = reading_spec(node)
    below = node if spec is node.spec else local_phase(node)
    return spec, written(below.inputs[0].node)


def written(node: PhysicalNode) -> Schema:
    """The columns of a node, in which those that have no name of the user's are what they compute."""
    if isinstance(node.spec, specs.CalcSpec):
        below = written(node.inputs[0].node)
        texts = [describe_expression(p, below) for p in node.spec.projections]
    elif isinstance(node.spec, specs.GroupAggregateSpec | specs.WindowAggregateSpec):
        spec, below = read_of(node)
        calls = [bare(describe_calls((c,), below)) for c in spec.aggregates]
        texts = [*(below.names[k] for k in spec.keys), *calls]
    else:
        return node.schema
    fields = (
        replace(f, name=texts[i]) if i < len(texts) and f.name.startswith(("$", "EXPR$")) else f
        for i, f in enumerate(node.schema.fields)
    )
    return Schema(tuple(fields))


def _table(node: PhysicalNode) -> str:
    """The table that the rows of a watermark come from."""
    while node.inputs:
        node = node.inputs[0].node
    return node.spec.table if isinstance(node.spec, specs.SourceSpec) else node.name


def _aggregate(node: PhysicalNode) -> str:
    spec, schema = read_of(node)
    keys = bare(describe_columns(spec.keys, schema))
    calls = bare(describe_calls(spec.aggregates, schema))
    if isinstance(spec, specs.WindowAggregateSpec):
        keys = f"{keys}, {spec.window}" if keys else str(spec.window)
    elif not calls:
        return f"SELECT DISTINCT {keys}"
    if not keys:
        return f"SELECT {calls}"
    return f"GROUP BY {keys} ({calls})" if calls else f"GROUP BY {keys}"


def _join(node: PhysicalNode, spec: Joining) -> str:
    left, right = (written(i.node) for i in node.inputs)
    pairs = zip(spec.left_keys, spec.right_keys, strict=True)
    parts = [f"{left.names[a]} = {right.names[b]}" for a, b in pairs]
    if times := times_text(spec, left, right):
        parts.append(times)
    if spec.condition is not None:
        parts.append(describe_expression(spec.condition, left.concat(right)))
    kind = "JOIN" if spec.kind is specs.JoinKind.INNER else f"{spec.kind.value} JOIN"
    return f"{kind} ON {' AND '.join(parts) or 'TRUE'}"


def times_text(spec: Joining, left: Schema, right: Schema) -> str:
    """How close the times of a pair are; empty for a join that asks nothing of them."""
    match spec:
        case specs.IntervalJoinSpec():
            times = f"{left.names[spec.left_time_column]} - {right.names[spec.right_time_column]}"
            return f"{times} BETWEEN {spec.lower_ms} ms AND {spec.upper_ms} ms"
        case specs.TemporalJoinSpec():
            return f"{right.names[spec.right_time_column]} AS OF {left.names[spec.left_time_column]}"
        case specs.SnapshotJoinSpec():
            return f"SNAPSHOT BY {right.names[spec.right_time_column]}"
        case specs.WindowJoinSpec():
            return f"{left.names[spec.left_window_end_column]} = {right.names[spec.right_window_end_column]}"
        case _:
            return ""


def _rank(schema: Schema, spec: specs.RankSpec | specs.DeduplicateSpec | specs.WindowRankSpec) -> str:
    if isinstance(spec, specs.DeduplicateSpec):
        keys, last = spec.keys, 1
        time = schema.names[spec.time_column] if spec.time_column >= 0 else "the time of arrival"
        order = f"{time} {'DESC' if spec.keep is specs.Keep.LAST else 'ASC'}"
    else:
        keys, last = spec.partition_keys, spec.rank_end
        order = bare(describe_order(spec.order, schema))
    if isinstance(spec, specs.WindowRankSpec):
        keys = (spec.window_start_column, spec.window_end_column, *keys)
    partition = f"PARTITION BY {bare(describe_columns(keys, schema))} " if keys else ""
    return f"ROW_NUMBER() OVER ({partition}ORDER BY {order}) <= {last}"


def _over(schema: Schema, spec: specs.OverSpec) -> str:
    parts = (
        [f"PARTITION BY {bare(describe_columns(spec.partition_keys, schema))}"] if spec.partition_keys else []
    )
    if spec.order:
        parts.append(f"ORDER BY {bare(describe_order(spec.order, schema))}")
    return f"{', '.join(call_in_words(c, schema) for c in spec.calls)} OVER ({' '.join(parts)})"
