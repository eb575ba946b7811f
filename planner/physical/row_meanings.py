"""What the rows of every operator of a plan mean."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from sqlstream import specs
from sqlstream.cancellation import check_not_given_up
from sqlstream.expressions import AggregateCall, Call, Expression, InputRef, SortKey, conjuncts, inputs_of
from sqlstream.function_ref import FunctionRef
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.physical.node import PhysicalNode, walk_plan
from sqlstream.planner.physical.planning import without_spans
from sqlstream.specs.backfill import is_history
from sqlstream.specs.process_table import output_places
from sqlstream.specs.rank import Ties
from sqlstream.types import BOOLEAN, LogicalType, TypeRoot

Joining = (
    specs.JoinSpec
    | specs.IntervalJoinSpec
    | specs.WindowJoinSpec
    | specs.TemporalJoinSpec
    | specs.SnapshotJoinSpec
)


def meanings_of(sinks: tuple[PhysicalNode, ...], time_zone: str) -> dict[int, Meaning]:
    """The meaning of every node of a plan, by its id(), in a session of this time zone."""
    found: dict[int, Meaning] = {}
    for node in walk_plan(sinks):
        check_not_given_up()
        found[id(node)] = row_meaning(node, [found[id(i.node)] for i in node.inputs], time_zone)
    return found


def reading_spec(node: PhysicalNode) -> Any:
    """The spec of an aggregation whose columns are those of the rows that are aggregated: behind a LOCAL phase, that of the LOCAL
    phase. The meaning of a LOCAL phase is that of its input."""
    is_global = getattr(node.spec, "phase", None) is specs.AggregatePhase.GLOBAL
    return local_phase(node).spec if is_global else node.spec


def local_phase(node: PhysicalNode) -> PhysicalNode:
    """The LOCAL phase of a GLOBAL one, which may read what a batch engine has made of a history, too."""
    source = node.inputs[0].node
    return source.inputs[0].node if source.spec is None else source


def reads_history(node: PhysicalNode) -> bool:
    """Whether the rows are those of a history alone."""
    while len(node.inputs) == 1:
        node = node.inputs[0].node
    return is_history(node.spec)


def row_meaning(node: PhysicalNode, inputs: list[Meaning], time_zone: str) -> Meaning:
    """What the rows of a node mean, whose inputs have these meanings."""
    match node.spec:
        case None if any(reads_history(i.node) for i in node.inputs):
            # The history of a table is rows of it.
            return inputs[0]
        case None:
            return _union(inputs, len(node.schema))
        case specs.BackfillSpec() as spec:
            return _by_position(digest_of("backfill", spec.table, spec.sql), (), len(node.schema))
        case specs.SourceSpec() as spec:
            return _source(spec, len(node.schema), time_zone)
        case specs.ValuesSpec() as spec:
            types = [type_text(f.type) for f in node.schema.fields]
            return _by_position(digest_of("values", repr(spec.rows), types), (), len(node.schema))
        case specs.CalcSpec() as spec:
            return _calc(spec, inputs[0], time_zone)
        case specs.KeptValuesSpec() as spec:
            columns = inputs[0].columns
            values = (expression_meaning(e, columns, time_zone) for e in spec.expressions)
            return dataclasses.replace(
                inputs[0], columns=(*columns[: len(node.inputs[0].node.schema)], *values)
            )
        case specs.ConflictCheckSpec():
            return inputs[0]
        case specs.SingleRowCheckSpec() as spec:
            passes = Call("IS NOT TRUE", (spec.has_several,), BOOLEAN.not_null())
            conditions = condition_meanings(passes, inputs[0].columns, time_zone)
            return dataclasses.replace(inputs[0], conditions=inputs[0].conditions | conditions)
        case (
            specs.WatermarkAssignerSpec()
            | specs.ChangelogNormalizeSpec()
            | specs.DropUpdateBeforeSpec()
            | specs.SinkSpec()
        ):
            return _padded(inputs[0], len(node.schema))
        case specs.GroupAggregateSpec() | specs.WindowAggregateSpec() as spec:
            return _aggregate(node, spec, inputs[0])
        case spec if isinstance(spec, Joining):
            return _join(spec, inputs[0], inputs[1], time_zone)
        case specs.VectorSearchSpec() as spec:
            read = without_spans(msgspec.to_builtins([spec.projections, spec.source_condition]))
            searched = [spec.kind.value, spec.source.table, read, spec.vector, spec.top_k, spec.metric]
            rows = digest_of("vector_search", searched, inputs[0].rows, inputs[0].of([spec.query]))
            return _by_position(rows, tuple(inputs[0].of(spec.columns)), len(node.schema))
        case specs.LookupJoinSpec() as spec:
            return _lookup_join(spec, inputs[0], time_zone)
        case specs.ModelPredictSpec() as spec:
            return _model_predict(spec, inputs[0])
        case specs.ProcessTableSpec() as spec:
            keys = [m.of(read.partition_keys) for read, m in zip(spec.inputs, inputs, strict=True)]
            constants = ["" if a is None else expression_meaning(a, (), time_zone) for a in spec.arguments]
            called = [spec.uid, spec.ref.module, spec.ref.attribute, *constants]
            rows = digest_of("process_table", called, [m.rows for m in inputs], keys)
            return _by_position(rows, (), len(node.schema))
        case specs.ProcessOutputSpec() as spec:
            return _process_output(node, spec, inputs[0])
        case _ as spec:
            return _of_one_input(node, spec, inputs)


def _of_one_input(node: PhysicalNode, spec: specs.Spec, inputs: list[Meaning]) -> Meaning:
    source, width = inputs[0], len(node.schema)
    match spec:
        case specs.RankSpec(phase=specs.RankPhase.LOCAL) | specs.DeduplicateSpec(phase=specs.RankPhase.LOCAL):
            # It drops rows of a batch that the GLOBAL phase would drop.
            return source
        case specs.RankSpec():
            order = order_meaning(spec.order, source)
            ranks: list[object] = [
                spec.rank_start,
                spec.rank_end,
                *([] if spec.ties is Ties.ANY else [spec.ties.value]),
            ]
            rows = digest_of("rank", source.rows, sorted(source.of(spec.partition_keys)), order, ranks)
        case specs.DeduplicateSpec():
            time = source.of([spec.time_column])
            rows = digest_of("deduplicate", source.rows, sorted(source.of(spec.keys)), spec.keep.value, time)
        case specs.WindowRankSpec():
            window = source.of([spec.window_start_column, spec.window_end_column])
            keys, order = sorted(source.of(spec.partition_keys)), order_meaning(spec.order, source)
            rows = digest_of("window_rank", source.rows, window, keys, order, spec.rank_start, spec.rank_end)
        case specs.TemporalSortSpec():
            rows = digest_of("temporal_sort", source.rows, source.of([spec.time_column]))
        case specs.SortSpec():
            rows = digest_of("sort", source.rows, order_meaning(spec.order, source), spec.offset, spec.fetch)
        case specs.LimitSpec():
            rows = digest_of("limit", source.rows, spec.offset, spec.fetch)
        case specs.OverSpec():
            # How long rows are kept is no part of what they are.
            calls = without_spans(msgspec.to_builtins(msgspec.structs.replace(spec, state_ttl_ms=0)))
            rows = digest_of("over", calls, source.rows, source.columns)
        case specs.IterateSpec():
            step = _steps(spec.operators)
            below = [[i.rows, i.columns] for i in inputs]
            rows = digest_of("iterate", step, spec.results, spec.is_distinct, spec.has_rounds, below)
            return _by_position(rows, (), width)
        case specs.MutualIterateSpec():
            below = [[i.rows, i.columns] for i in inputs]
            limit = (spec.rounds_max, spec.is_error)
            rows = digest_of(
                "mutual_iterate",
                _steps(spec.operators),
                spec.results,
                spec.read,
                limit,
                spec.is_distinct,
                below,
                *([spec.extremes, spec.has_ranks] if spec.extremes else []),
            )
            return _by_position(rows, (), width)
        case specs.TrainModelSpec():
            # What is learned goes on with other rates and mini-batches.
            rows = digest_of("train_model", spec.algorithm, spec.clusters, source.rows, source.columns)
            return _by_position(rows, (), width)
        case specs.WindowTvfSpec():
            partition = [sorted(source.of(spec.keys))] if spec.keys else []
            time = source.of([spec.time_column])
            rows = digest_of("windows", source.rows, _window(spec.window), time, *partition)
        case _:
            below = [[i.rows, i.columns] for i in inputs]
            rows = digest_of("operator", without_spans(msgspec.to_builtins(spec)), below)
            return _by_position(rows, (), width)
    return _by_position(rows, source.columns, width)


def _model_predict(spec: specs.ModelPredictSpec, source: Meaning) -> Meaning:
    """The rows of the input. A file with a better model is no other model: its version is no part of it."""
    features = source.of(spec.features)
    outputs = [
        digest_of("model", spec.model.path, field.name, type_text(field.type), features)
        for field in spec.model.outputs.fields
    ]
    return Meaning(source.base, (*source.of(spec.columns), *outputs), source.conditions)


def _steps(operators: tuple[specs.InnerOperator, ...]) -> list[Any]:
    """What the operators do within one. Names of columns are no part of what rows are."""
    return [
        (without_spans(msgspec.to_builtins(o.spec)), o.inputs, list(map(str, o.schema.types)))
        for o in operators
    ]


def _by_position(rows: str, columns: tuple[str, ...], width: int) -> Meaning:
    """`columns`, then columns of the operator's own up to `width`."""
    own = (digest_of("column", rows, i - len(columns)) for i in range(len(columns), width))
    return Meaning(rows, (*columns[:width], *own))


def _process_output(node: PhysicalNode, spec: specs.ProcessOutputSpec, source: Meaning) -> Meaning:
    """The output of `result_type` means what it does in a function without side outputs."""
    function = node.inputs[0].node.spec
    assert isinstance(function, specs.ProcessTableSpec)
    assert function.ref.process is not None
    places = output_places(function.inputs, function.ref, spec.number)
    rows = source.base
    if spec.number:
        rows = digest_of("process_output", rows, function.ref.process.outputs[spec.number - 1].name)
    whole = _by_position(rows, (), len(places))
    return Meaning(rows, tuple(whole.columns[places.index(c)] for c in spec.columns))


def _padded(source: Meaning, width: int) -> Meaning:
    """The rows of the input; a column more is the watermark of each row."""
    missing = width - len(source.columns)
    return Meaning(
        source.base, (*source.columns[:width], *[digest_of("row_watermark")] * missing), source.conditions
    )


def _calc(spec: specs.CalcSpec, source: Meaning, time_zone: str) -> Meaning:
    columns = tuple(expression_meaning(p, source.columns, time_zone) for p in spec.projections)
    conditions = condition_meanings(spec.condition, source.columns, time_zone)
    return Meaning(source.base, columns, source.conditions | conditions)


def _source(spec: specs.SourceSpec, width: int, time_zone: str) -> Meaning:
    """The options say where the rows are. Filters that the connector applies are conditions like those of a Calc."""
    columns = _table_columns(spec)
    if spec.watermark is not None and spec.watermark.adds_rowtime:
        columns += (expression_meaning(spec.watermark.rowtime, columns, time_zone),)
    conditions = frozenset(c for f in spec.filters for c in condition_meanings(f, columns, time_zone))
    parts = [*([spec.limit] if spec.limit >= 0 else []), *(["history"] if spec.turn >= 0 else [])]
    base = digest_of("table", spec.table, *parts)
    return _padded(Meaning(base, columns, conditions), width)


def _table_columns(spec: specs.SourceSpec) -> tuple[str, ...]:
    types = {f.name: f.type for f in spec.schema.fields}
    physical = (digest_of("physical", spec.table, name, type_text(types[name])) for name in spec.columns)
    metadata = (digest_of("metadata", spec.table, f.name, type_text(f.type)) for f in spec.metadata)
    return (*physical, *metadata)


def _union(branches: list[Meaning], width: int) -> Meaning:
    ordered = sorted(branches, key=lambda b: (b.rows, b.columns))
    base = digest_of("union", [b.rows for b in ordered])
    columns = (digest_of("union", [[b.rows, b.columns[i]] for b in ordered]) for i in range(width))
    return Meaning(base, tuple(columns))


def _aggregate(
    node: PhysicalNode, spec: specs.GroupAggregateSpec | specs.WindowAggregateSpec, source: Meaning
) -> Meaning:
    if spec.phase is specs.AggregatePhase.LOCAL:
        return source
    reading = reading_spec(node)
    keys = source.of(reading.keys)
    calls = [call_meaning(c, source) for c in reading.aggregates]
    window = window_meaning(reading, source) if isinstance(reading, specs.WindowAggregateSpec) else []
    rows = digest_of("groups", source.rows, sorted(keys), window)
    return _by_position(rows, (*keys, *calls), len(node.schema))


def window_meaning(spec: specs.WindowAggregateSpec, source: Meaning) -> list[Any]:
    """The windows, and the columns that assign rows to them."""
    columns = [spec.time_column, spec.window_start_column, spec.window_end_column]
    return [_window(spec.window), source.of(columns)]


def _window(window: specs.WindowSpec) -> list[Any]:
    return [str(window), window.is_event_time, window.time_zone]


def _join(spec: Joining, left: Meaning, right: Meaning, time_zone: str) -> Meaning:
    columns = (*(digest_of("left", c) for c in left.columns), *(digest_of("right", c) for c in right.columns))
    conditions = sorted(c.meaning for c in condition_meanings(spec.condition, columns, time_zone))
    kept = columns[: len(left.columns)] if spec.kind.is_left_only else columns
    return Meaning(digest_of("join", pairing_meaning(spec, left, right), conditions), kept)


def pairing_meaning(spec: Joining, left: Meaning, right: Meaning) -> str:
    """A join without the condition that its pairs pass, besides equal keys and close times."""
    pairs = sorted(zip(left.of(spec.left_keys), right.of(spec.right_keys), strict=True))
    kind = [type(spec).__name__, spec.kind.value]
    return digest_of(kind, left.rows, right.rows, pairs, times_meaning(spec, left, right))


def times_meaning(spec: Joining, left: Meaning, right: Meaning) -> list[Any]:
    """How close the times of a pair are."""
    match spec:
        case specs.IntervalJoinSpec():
            times = [left.columns[spec.left_time_column], right.columns[spec.right_time_column]]
            return [*times, spec.lower_ms, spec.upper_ms, spec.is_event_time]
        case specs.WindowJoinSpec():
            return [
                left.of([spec.left_window_start_column, spec.left_window_end_column]),
                right.of([spec.right_window_start_column, spec.right_window_end_column]),
            ]
        case specs.TemporalJoinSpec():
            return [left.columns[spec.left_time_column], right.columns[spec.right_time_column]]
        case specs.SnapshotJoinSpec():
            return [right.columns[spec.right_time_column]]
        case _:
            return []


def _lookup_join(spec: specs.LookupJoinSpec, left: Meaning, time_zone: str) -> Meaning:
    table = _table_columns(spec.source)
    looked_up = tuple(
        digest_of("looked_up", expression_meaning(p, table, time_zone)) for p in spec.projections
    )
    columns = (*left.columns, *looked_up)
    pairs = sorted(zip(left.of(spec.left_keys), (table[k] for k in spec.source_keys), strict=True))
    conditions = [
        sorted(c.meaning for c in condition_meanings(spec.source_condition, table, time_zone)),
        sorted(c.meaning for c in condition_meanings(spec.condition, columns, time_zone)),
    ]
    rows = digest_of("lookup_join", spec.kind.value, left.rows, spec.source.table, pairs, conditions)
    return Meaning(rows, columns)


# What the rows of an operator mean, whatever they are called and however they are computed.
#
# Two plans whose operators have equal meanings give equal rows for equal input. A meaning leaves out names of
# columns, their order and number, positions in the text, options of tables, and which operator computes an
# expression.


DIGITS = 32

OF_LOCAL_TIME = frozenset(
    ("FROM_UNIXTIME", "UNIX_TIMESTAMP", "LOCALTIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIME")
)
"""Functions that read the session's time zone without a TIMESTAMP_LTZ."""


class Condition(NamedTuple):
    """`reads` are the columns that decide whether it is TRUE; None where something else does, such as the time."""

    meaning: str
    reads: frozenset[str] | None


@dataclasses.dataclass(frozen=True)
class Meaning:
    """`base` and `conditions` say which rows there are: those of `base` for which every condition is TRUE. `columns` say what
    each column holds of such a row."""

    base: str
    columns: tuple[str, ...]
    conditions: frozenset[Condition] = frozenset()

    @property
    def rows(self) -> str:
        conditions = sorted(c.meaning for c in self.conditions)
        return digest_of("filter", self.base, conditions) if conditions else self.base

    def without(self, conditions: frozenset[Condition]) -> Meaning:
        return dataclasses.replace(self, conditions=self.conditions - conditions)

    def conditions_on(self, columns: Iterable[str]) -> frozenset[Condition]:
        """Those that are TRUE for all rows, or for none, that have the same values in these columns."""
        known = frozenset(columns)
        return frozenset(c for c in self.conditions if c.reads and c.reads <= known)

    def of(self, columns: Iterable[int]) -> list[str]:
        """What these columns hold; "" for -1."""
        return [self.columns[c] if c >= 0 else "" for c in columns]


def digest_of(*parts: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()[:DIGITS]


def type_text(t: LogicalType) -> str:
    return str(t.without_time_attribute())


def expression_meaning(expression: Expression, columns: Sequence[str], time_zone: str) -> str:
    """What an expression over columns of these meanings holds; that of a column is its own. `time_zone` is the session's."""
    check_not_given_up()
    if isinstance(expression, InputRef):
        return columns[expression.index]
    if isinstance(expression, Call):
        args = [expression_meaning(a, columns, time_zone) for a in expression.args]
        zone = [time_zone] if _reads_time_zone(expression) else []
        name = expression.function if expression.ref is None else _user_function(expression.ref)
        return digest_of("call", name, args, type_text(expression.type), *zone)
    # JSON has one number for 1 and 1.0, and none for NaN.
    return digest_of("literal", repr(expression.value), type_text(expression.type))


def _user_function(ref: FunctionRef) -> list[str]:
    """What a user's function is, whatever SQL calls it: its code is no part of it, so that a corrected one goes on from the
    state."""
    return ["python", ref.module, ref.attribute, str(ref.accumulator_type or "")]


def _reads_time_zone(call: Call) -> bool:
    types = (call.type, *(a.type for a in call.args))
    return call.function in OF_LOCAL_TIME or any(has_instants(t) for t in types)


def has_instants(t: LogicalType) -> bool:
    """Whether a value of the type has a TIMESTAMP_LTZ at any depth."""
    return t.root is TypeRoot.TIMESTAMP_LTZ or any(map(has_instants, t.parts))


def call_meaning(call: AggregateCall, meaning: Meaning) -> str:
    filtered = meaning.of([call.filter])
    name = call.function if call.ref is None else _user_function(call.ref)
    return digest_of(
        "aggregate", name, call.is_distinct, meaning.of(call.args), filtered, type_text(call.type)
    )


def order_meaning(order: Iterable[SortKey], meaning: Meaning) -> list[Any]:
    return [[meaning.columns[k.column], k.is_descending, k.is_nulls_first] for k in order]


def condition_meanings(
    condition: Expression | None, columns: Sequence[str], time_zone: str
) -> frozenset[Condition]:
    return frozenset(_condition(part, columns, time_zone) for part in conjuncts(condition))


def _condition(part: Expression, columns: Sequence[str], time_zone: str) -> Condition:
    reads = frozenset(columns[i] for i in inputs_of(part)) if is_deterministic(part) else None
    return Condition(expression_meaning(part, columns, time_zone), reads)
