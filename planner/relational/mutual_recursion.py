"""WITH MUTUALLY RECURSIVE: one operator with the operators of its queries inside it, whose rows meet among its subtasks by their
keys."""

from __future__ import annotations

import dataclasses
import enum

from sqlstream.expressions import (
    InputRef,
)
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.physical.description import describe
from sqlstream.planner.physical.node import PhysicalNode, Traits, walk_plan
from sqlstream.planner.physical.planning import Planning, hash_or_singleton, hashable, over
from sqlstream.planner.relational import nodes as plan
from sqlstream.planner.relational.iterate import (
    inner_operators,
    inner_planning,
    keys_of_readers,
    meeting,
    placed,
    table_placements,
    why_alone,
    why_unplaced,
)
from sqlstream.planner.relational.planner import Inputs, plan_parts
from sqlstream.planner.relational.recursive_query import (
    IterateInput,
    MutualIterate,
    RecursiveScan,
    Unroll,
    free_levels,
)
from sqlstream.planner.relational.recursive_step import in_order
from sqlstream.planner.relational.round_differences import Differences, Ranks, refused
from sqlstream.planner.relational.settled_values import GREATEST, KEY, settled_values, why_rounds
from sqlstream.schema import Schema
from sqlstream.specs.iterate import (
    InnerOperator,
    MutualIterateSpec,
    UnrollSpec,
)
from sqlstream.specs.join import JoinKind


def plan_mutual_iterate(planning: Planning, inputs: Inputs, node: MutualIterate) -> PhysicalNode:
    """Without rounds where no row ever goes, or where each row may be made in any order."""
    steps = None
    if not node.rounds_max:
        steps = _growing(planning, inputs, node) or _settling(planning, inputs, node)
    if steps is None:
        steps = _planned(planning, inputs, node, RowsWithin.OF_ROUNDS)
    node = steps.node
    has_rounds = steps.rows is RowsWithin.OF_ROUNDS
    has_better = any(any(steps.extremes[number]) for number in node.read) if steps.extremes else False
    is_insert_only = steps.rows is RowsWithin.GROWING and not has_better
    alone, steps = _distributed(steps)
    spec = MutualIterateSpec(
        names=node.names,
        columns=node.columns,
        operators=steps.operators,
        results=steps.results,
        read=node.read,
        rounds_max=node.rounds_max,
        is_error=node.is_error,
        has_rounds=has_rounds,
        is_distinct=steps.is_distinct,
        extremes=steps.extremes,
        has_ranks=steps.rows is RowsWithin.RANKED,
        placements=()
        if alone
        else (*steps.placements, *table_placements(len(node.names), steps.tables, steps.operators)),
        has_sums=steps.has_sums,
    )
    tags = zip(node.columns, steps.extremes, strict=True) if steps.extremes else ()
    best = [
        f"{'MAX' if tag == GREATEST else 'MIN'}({name})"
        for columns, own in tags
        for name, tag in zip(columns.names, own, strict=True)
        if tag
    ]
    keys = [frozenset(key) for key in node.result_keys()]
    if not (alone or is_insert_only):
        # Other subtasks may be faster than the one that retracts the row of the same key.
        keys = [key for key in keys if {*steps.placements[node.read[0]]} <= key]
    action = "error" if node.is_error else "return"
    limit = {f"{action}At": str(node.rounds_max)} if node.rounds_max else {}
    return planning.node(
        "MutualIterate",
        spec,
        placed(steps.tables, spec.placements[len(node.names) :]),
        node.schema,
        Traits(
            is_insert_only=is_insert_only,
            is_bounded=all(table.traits.is_bounded for table in steps.tables),
            keys=frozenset(keys),
        ),
        describe(
            "MutualIterate",
            queries=f"[{', '.join(node.names)}]",
            **limit,
            rounds=f"[{why_rounds(node)}]" if has_rounds else "",
            ranks="[kept]" if spec.has_ranks else "",
            best=f"[{', '.join(best)}]" if best else "",
            oneSubtask=f"[{alone}]" if alone else "",
            steps=f"[{', '.join(o.description for o in walk_plan(steps.roots))}]",
        ),
        node.span,
        parallelism=1 if alone else 0,
    )


class RowsWithin(enum.Enum):
    """What the rows of queries are within the operator: rows that come; rows that come and go, with a rank; or those that come
    and go in rounds."""

    GROWING = "GROWING"
    RANKED = "RANKED"
    OF_ROUNDS = "OF_ROUNDS"


_LIFTED = {RowsWithin.RANKED: Ranks, RowsWithin.OF_ROUNDS: Differences}


@dataclasses.dataclass(frozen=True)
class _Steps:
    """The planned queries of `node`: their `roots` with their operators, and the `tables` that they read."""

    node: MutualIterate
    rows: RowsWithin
    roots: tuple[PhysicalNode, ...]
    tables: tuple[PhysicalNode, ...]
    operators: tuple[InnerOperator, ...]
    results: tuple[tuple[int, ...], ...]
    is_distinct: tuple[bool, ...] = ()
    extremes: tuple[tuple[int, ...], ...] = ()
    placements: tuple[tuple[int, ...], ...] = ()
    has_sums: bool = False

    @property
    def grow(self) -> bool:
        return all(each.traits.is_insert_only for each in (*self.tables, *self.roots))


def _growing(planning: Planning, inputs: Inputs, node: MutualIterate) -> _Steps | None:
    """The queries over rows that only come; None where one may go."""
    bodies = [_as_distinct(body) for body in node.bodies]
    if not all(_only_grows(body, frozenset(node.levels)) for body, _ in bodies):
        return None
    growing = dataclasses.replace(node, bodies=tuple(body for body, _ in bodies))
    steps = _planned(planning, inputs, growing, RowsWithin.GROWING)
    if not steps.grow:
        return None
    return dataclasses.replace(steps, is_distinct=tuple(is_distinct for _, is_distinct in bodies))


def _settling(planning: Planning, inputs: Inputs, node: MutualIterate) -> _Steps | None:
    """The queries whose values get better alone as long as no row goes; None where others may."""
    settled = settled_values(node)
    if settled is None:
        return None
    steps = _planned(planning, inputs, settled.node, RowsWithin.GROWING)
    if not steps.grow:
        if any(sum(map(abs, tags)) > 1 for tags in settled.extremes):
            return None
        steps = _planned(planning, inputs, settled.node, RowsWithin.RANKED)
    every = (True,) * len(settled.extremes)
    return dataclasses.replace(steps, is_distinct=every, extremes=settled.extremes, has_sums=settled.has_sums)


def _as_distinct(body: plan.RelationalNode) -> tuple[plan.RelationalNode, bool]:
    """What makes the rows of a query, and whether each of them counts once."""
    below = body.input if isinstance(body, plan.Project) else body
    if not isinstance(below, plan.Aggregate) or below.calls or not below.keys:
        return body, False
    rows = in_order(below.input, list(below.keys))
    if not isinstance(body, plan.Project):
        return rows, True
    columns = [e.index for e in body.expressions if isinstance(e, InputRef)]
    if len(columns) < len(body.expressions) or sorted(columns) != [*range(len(rows.schema))]:
        return body, False
    return dataclasses.replace(body, input=rows), True


def _only_grows(node: plan.RelationalNode, levels: frozenset[int]) -> bool:
    """Whether each row that comes adds rows alone, whatever else there is."""
    if isinstance(node, RecursiveScan) or not levels & free_levels(node):
        return True
    if not is_deterministic(*node.scalar_expressions()):
        return False
    match node:
        case plan.Join(kind=JoinKind.INNER | JoinKind.SEMI) if node.ttls_ms == (None, None):
            return all(_only_grows(each, levels) for each in node.inputs)
        case plan.Filter() | plan.Project() | plan.Union() | plan.Unnest() | plan.Expand():
            return all(_only_grows(each, levels) for each in node.inputs)
    return False


# Where rows meet.


def _distributed(steps: _Steps) -> tuple[str, _Steps]:
    """Why the queries have one subtask, if so, and else the steps with where their rows meet."""
    alone = why_alone(steps.roots, steps.tables)
    if alone:
        return alone, steps
    placed = dataclasses.replace(steps, operators=meeting(steps.operators, steps.roots))
    placements = tuple(_placement(placed, number) for number in range(len(steps.node.names)))
    for columns, keys in zip(steps.node.columns, placements, strict=True):
        alone = alone or why_unplaced(columns, keys)
    return alone, steps if alone else dataclasses.replace(placed, placements=placements)


def _placement(steps: _Steps, number: int) -> tuple[int, ...]:
    """The columns by which rows of a query come to the subtask that decides about them, best those by which an operator needs
    them. Rows of which a key has the best one have to come by the key."""
    columns = steps.node.columns[number]
    every = tuple(range(len(columns)))
    if steps.extremes and (steps.rows is RowsWithin.RANKED or any(steps.extremes[number])):
        return tuple(c for c in every if steps.extremes[number][c] == KEY)
    if steps.rows is RowsWithin.GROWING and not steps.is_distinct[number]:
        return ()
    is_result = steps.rows is RowsWithin.OF_ROUNDS and steps.node.read == (number,)
    keys = steps.node.result_keys() if is_result else ()
    read = [k for k in keys_of_readers(number, steps.operators) if max(k) < len(columns)]
    # A row of a key goes where it came, before another one comes.
    wanted = [*(k for k in read if all({*k} <= {*key} for key in keys)), *(k for k in keys if k), *read]
    return next(iter(wanted), hashable(columns, every) or every)


def _planned(planning: Planning, inputs: Inputs, node: MutualIterate, rows: RowsWithin) -> _Steps:
    tables: dict[plan.RelationalNode, PhysicalNode] = {}
    count = len(node.bodies)
    levels = frozenset(node.levels)
    lifted_by = _LIFTED.get(rows)
    extra = lifted_by.extra if lifted_by else ()

    def input_of(below: plan.RelationalNode) -> plan.RelationalNode:
        if isinstance(below, RecursiveScan) and below.level in levels:
            fields = node.columns[below.level - node.level].fields
            return IterateInput(
                ordinal=below.level - node.level,
                is_insert_only=rows is RowsWithin.GROWING,
                schema=Schema((*fields, *extra)),
                span=below.span,
            )
        table = tables.setdefault(below, inputs.of(below, False))
        return IterateInput(
            ordinal=count + list(tables).index(below),
            is_insert_only=table.traits.is_insert_only,
            schema=below.schema,
            span=below.span,
        )

    def as_it_is(below: plan.RelationalNode) -> plan.RelationalNode:
        if id(below) not in made:
            is_input = isinstance(below, RecursiveScan) or not levels & free_levels(below)
            inner = input_of(below) if is_input else below.with_inputs(tuple(map(as_it_is, below.inputs)))
            made[id(below)] = inner
        return made[id(below)]

    made: dict[int, plan.RelationalNode] = {}
    lifting = lifted_by(levels, input_of).of_rounds if lifted_by else as_it_is
    lifted = tuple(lifting(body) for body in node.bodies)
    roots = plan_parts(inner_planning(planning, lifted), lifted)
    operators, results = inner_operators(roots, count + len(tables), refused)
    return _Steps(node, rows, roots, tuple(tables.values()), operators, results)


def plan_unroll(planning: Planning, inputs: Inputs, node: Unroll) -> PhysicalNode:
    source = inputs[0]
    return planning.node(
        "Unroll",
        UnrollSpec(node.keys, node.is_distinct, node.is_greatest),
        over(source, hash_or_singleton(node.keys)),
        node.schema,
        Traits(is_insert_only=False, is_bounded=source.traits.is_bounded),
        describe(
            "Unroll",
            keys=str(list(node.keys)),
            distinct="true" if node.is_distinct else "",
            extremes=f"[{', '.join('MAX' if g else 'MIN' for g in node.is_greatest)}]"
            if node.is_greatest
            else "",
        ),
        node.span,
    )
