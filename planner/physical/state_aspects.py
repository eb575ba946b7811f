"""What a state means, part by part, so that two states can be compared in words (see sqlstream.graph.state_identity)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlstream import specs
from sqlstream.expressions import Expression, SortKey, conjuncts
from sqlstream.graph.state_identity import Aspect
from sqlstream.planner.physical.description import describe_calls, describe_expression, describe_order
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.row_meanings import (
    Joining,
    Meaning,
    call_meaning,
    digest_of,
    expression_meaning,
    order_meaning,
    reading_spec,
    times_meaning,
    type_text,
    window_meaning,
)
from sqlstream.planner.physical.state_identity import bare, read_of, state_title, times_text, written
from sqlstream.schema import Schema

DIGITS = 12
"""They tell apart the parts of two states alone."""

TEXT_MAX = 120
PARTS_MAX = 200
SIDES = ("left", "right")

Part = tuple[str, str]


def aspects_of(node: PhysicalNode, meanings: Mapping[int, Meaning], time_zone: str) -> tuple[Aspect, ...]:
    """Of an operator that keeps some. `meanings` are those of all nodes below it, by their id()."""
    read = [meanings[id(i.node)] for i in node.inputs]
    sides = SIDES if len(read) == len(SIDES) else ("",) * len(read)
    found: list[Aspect] = []
    for side, physical_input, meaning in zip(sides, node.inputs, read, strict=True):
        below = physical_input.node
        found.append(_aspect("rows", [(meaning.base, _origin(below, meanings))], side))
        found.append(_aspect("filter", _filters(below, meanings, time_zone), side))
    return tuple(a for a in (*found, *_own(node, read, sides, time_zone)) if a.parts)


def _aspect(name: str, parts: Iterable[Part], side: str = "") -> Aspect:
    short = ((digest[:DIGITS], text[:TEXT_MAX]) for digest, text in parts)
    return Aspect(name, tuple(short)[:PARTS_MAX], side)


def _origin(node: PhysicalNode, meanings: Mapping[int, Meaning]) -> str:
    """What decides which rows there are, but for filters."""
    while node.inputs and meanings[id(node.inputs[0].node)].base == meanings[id(node)].base:
        node = node.inputs[0].node
    match node.spec:
        case None:
            return f"UNION ALL of {len(node.inputs)} inputs"
        case specs.SourceSpec() as spec:
            return f"table {spec.table}"
        case specs.LookupJoinSpec() as spec:
            return f"{_origin(node.inputs[0].node, meanings)} with rows of table {spec.source.table}"
        case specs.WindowTvfSpec() as spec:
            return f"{spec.window} of {_origin(node.inputs[0].node, meanings)}"
        case _:
            return state_title(node)


def _filters(node: PhysicalNode, meanings: Mapping[int, Meaning], time_zone: str) -> Iterator[Part]:
    """The conditions of a meaning, in the words of the operators that apply them."""
    while True:
        if isinstance(node.spec, specs.SourceSpec):
            yield from _conditions(node.spec.filters, meanings[id(node)].columns, node.schema, time_zone)
        if not node.inputs:
            return
        below = node.inputs[0].node
        if meanings[id(below)].base != meanings[id(node)].base:
            return
        if isinstance(node.spec, specs.CalcSpec):
            conditions = conjuncts(node.spec.condition)
            yield from _conditions(conditions, meanings[id(below)].columns, written(below), time_zone)
        node = below


def _conditions(
    found: Iterable[Expression], columns: Sequence[str], schema: Schema, time_zone: str
) -> Iterator[Part]:
    for condition in found:
        yield expression_meaning(condition, columns, time_zone), describe_expression(condition, schema)


def _own(
    node: PhysicalNode, inputs: list[Meaning], sides: tuple[str, ...], time_zone: str
) -> Iterator[Aspect]:
    """Beside what an operator reads."""
    below = [i.node for i in node.inputs]
    match node.spec:
        case specs.GroupAggregateSpec() | specs.WindowAggregateSpec():
            yield from _of_aggregate(node, inputs[0])
        case spec if isinstance(spec, Joining):
            yield from _of_join(spec, inputs, [written(n) for n in below], time_zone)
        case specs.RankSpec() | specs.WindowRankSpec() as spec:
            yield _columns("keys", spec.partition_keys, inputs[0], written(below[0]))
            yield _order(spec.order, inputs[0], written(below[0]))
            ranks = f"{spec.rank_start} to {spec.rank_end}"
            yield _aspect("limit", [(digest_of(ranks), ranks)])
        case specs.DeduplicateSpec() as spec:
            yield _columns("keys", spec.keys, inputs[0], written(below[0]))
            which = f"the {spec.keep.value.lower()}"
            yield _aspect("order", [(digest_of(which, inputs[0].of([spec.time_column])), which)])
        case specs.SourceSpec() | specs.SinkSpec() | specs.WatermarkAssignerSpec():
            pass
        case _:
            title = state_title(node)
            yield _aspect("operator", [(digest_of(title), title)])
    if isinstance(node.spec, specs.SinkSpec):
        yield _written_columns(node.spec, _texts(below[0]), inputs[0])
        return
    for side, read, meaning in zip(sides, below, inputs, strict=True):
        if _keeps_columns(node):
            yield _columns("columns", range(len(read.schema)), meaning, read.schema, side)
        spec = reading_spec(node)
        is_retracting = getattr(spec, "is_retracting", not read.settled_mode.is_insert_only)
        mode = "rows that are retracted" if is_retracting else "rows that stay"
        yield _aspect("changes", [(digest_of(mode), mode)], side)


def _keeps_columns(node: PhysicalNode) -> bool:
    """Whether it keeps rows of its inputs whole."""
    return not isinstance(
        node.spec, specs.GroupAggregateSpec | specs.WindowAggregateSpec | specs.WatermarkAssignerSpec
    )


def _columns(name: str, columns: Iterable[int], meaning: Meaning, schema: Schema, side: str = "") -> Aspect:
    return _aspect(name, (_column(c, meaning, schema) for c in columns if c < len(meaning.columns)), side)


def _column(column: int, meaning: Meaning, schema: Schema) -> Part:
    field = schema.fields[column]
    return meaning.columns[column], f"{field.name} {type_text(field.type.with_nullable(True))}"


def _order(order: Sequence[SortKey], meaning: Meaning, schema: Schema) -> Aspect:
    return _aspect(
        "order", [(digest_of(order_meaning(order, meaning)), bare(describe_order(tuple(order), schema)))]
    )


def _of_aggregate(node: PhysicalNode, source: Meaning) -> Iterator[Aspect]:
    spec, schema = read_of(node)
    yield _columns("keys", spec.keys, source, schema)
    yield _aspect(
        "calls", ((call_meaning(c, source), bare(describe_calls((c,), schema))) for c in spec.aggregates)
    )
    if isinstance(spec, specs.WindowAggregateSpec):
        yield _aspect("windows", [(digest_of(window_meaning(spec, source)), str(spec.window))])
        phases = "one phase" if reading_spec(node) is node.spec else "two phases"
        yield _aspect("kind", [(digest_of(phases), f"in {phases}")])


def _of_join(spec: Joining, inputs: list[Meaning], schemas: list[Schema], time_zone: str) -> Iterator[Aspect]:
    (left, right), (of_left, of_right) = inputs, schemas
    pairs = zip(spec.left_keys, spec.right_keys, strict=True)
    yield _aspect(
        "keys",
        (
            (digest_of(left.columns[a], right.columns[b]), f"{of_left.names[a]} = {of_right.names[b]}")
            for a, b in pairs
        ),
    )
    parts = []
    if times := times_text(spec, of_left, of_right):
        parts.append((digest_of(times_meaning(spec, left, right)), times))
    joined = [*(digest_of("left", c) for c in left.columns), *(digest_of("right", c) for c in right.columns)]
    parts += _conditions(conjuncts(spec.condition), joined, of_left.concat(of_right), time_zone)
    yield _aspect("condition", parts)
    kind = f"{type(spec).__name__.removesuffix('Spec')} {spec.kind.value}"
    yield _aspect("kind", [(digest_of(kind), kind)])


def _texts(node: PhysicalNode) -> Sequence[str]:
    """What computes each column of the rows of a node."""
    if not isinstance(node.spec, specs.CalcSpec):
        return written(node).names
    below = written(node.inputs[0].node)
    return [describe_expression(p, below) for p in node.spec.projections]


def _written_columns(spec: specs.SinkSpec, texts: Sequence[str], meaning: Meaning) -> Aspect:
    """Those of the table, each with what computes it."""
    named = zip(meaning.columns, (f.name for f in spec.fields), texts, strict=False)
    return _aspect("columns", ((m, name if text == name else f"{name} = {text}") for m, name, text in named))
