"""A recursive query: one operator with the operators of its step inside it, whose rows meet among its subtasks by their keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from sqlstream.errors import Span, UserError
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.planner.physical.description import describe
from sqlstream.planner.physical.node import PhysicalInput, PhysicalNode, Traits, walk_plan
from sqlstream.planner.physical.planning import SINGLETON, Planning, hash_or_singleton, hashable
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.planner import Inputs, plan_parts, shared_nodes
from sqlstream.planner.relational.recursive_query import Iterate, IterateInput, RecursiveScan
from sqlstream.planner.relational.recursive_step import ROUND, lift_step, refused, treats_rows_alone
from sqlstream.schema import Schema
from sqlstream.specs.calc import SingleRowCheckSpec
from sqlstream.specs.iterate import InnerOperator, InnerSpec, IterateInputSpec, IterateSpec

Refusal = Callable[[str, Span | None, str], UserError]


def plan_iterate_input(planning: Planning, inputs: Inputs, node: IterateInput) -> PhysicalNode:
    """What stands for the input while the step is planned. A step knows nothing of time."""
    return planning.node(
        "Input",
        IterateInputSpec(node.ordinal),
        (),
        node.schema,
        Traits(is_insert_only=node.is_insert_only, is_bounded=False),
        describe("Input", ordinal=str(node.ordinal)),
        node.span,
    )


def plan_iterate(planning: Planning, inputs: Inputs, node: Iterate) -> PhysicalNode:
    """With rounds only where the step does not treat each row alone, or where a row that is retracted might seem to be made by
    rows that it made itself."""
    first = inputs[0]
    is_linear = treats_rows_alone(node.step, node.level)
    for has_rounds, is_insert_only in _manners(node, is_linear, first.traits.is_insert_only):
        step = _planned(planning, inputs, node, has_rounds, is_insert_only)
        if step.root.traits.is_insert_only or not is_insert_only:
            break
    sources = (first, *step.tables)
    alone = _why_alone(node.schema, step)
    operators = step.operators if alone else meeting(step.operators, (step.root,))
    own = tuple(range(len(node.schema)))
    spec = IterateSpec(
        name=node.name,
        operators=operators,
        results=step.results,
        is_distinct=node.is_distinct,
        has_rounds=has_rounds,
        is_linear=is_linear,
        is_insert_only=is_insert_only,
        placements=() if alone else (own, *table_placements(1, step.tables, operators)),
    )
    traits = Traits(
        is_insert_only=is_insert_only,
        is_bounded=all(source.traits.is_bounded for source in sources),
        keys=frozenset({frozenset(range(len(node.schema)))}) if node.is_distinct else frozenset(),
    )
    return planning.node(
        "Iterate",
        spec,
        placed(sources, spec.placements),
        node.schema,
        traits,
        describe(
            "Iterate",
            query=f"[{node.name}]",
            union="[DISTINCT]" if node.is_distinct else "[ALL]",
            rounds="[kept]" if has_rounds else "",
            oneSubtask=f"[{alone}]" if alone else "",
            step=f"[{', '.join(o.description for o in walk_plan((step.root,)))}]",
        ),
        node.span,
        parallelism=1 if alone else 0,
    )


def _manners(node: Iterate, is_linear: bool, is_insert_only: bool) -> Iterator[tuple[bool, bool]]:
    """(has_rounds, is_insert_only): how the step may be run, the cheapest first. The last one always can."""
    if is_insert_only and (is_linear or not node.is_distinct):
        yield not is_linear, True
    yield not is_linear or node.is_distinct, False


# Where rows meet: those of the recursive query by all of their columns, those that an operator of the step reads by its keys.


def _why_alone(schema: Schema, step: _Step) -> str:
    """Why the query has one subtask, whatever the parallelism is; empty where it has as many as others."""
    return why_unplaced(schema, tuple(range(len(schema)))) or why_alone((step.root,), step.tables)


def why_unplaced(schema: Schema, columns: tuple[int, ...]) -> str:
    """Why rows cannot be distributed by these columns, if so."""
    nested = [schema.names[c] for c in columns if c not in hashable(schema, columns)]
    return f"rows cannot be distributed by {nested[0]}" if nested else ""


def why_alone(roots: tuple[PhysicalNode, ...], tables: tuple[PhysicalNode, ...]) -> str:
    """Why steps with these roots, and the tables that they read, have one subtask, if so."""
    for node in walk_plan(roots):
        for each in node.inputs:
            if each.exchange.kind not in (ExchangeKind.HASH, ExchangeKind.FORWARD):
                return f"{node.name} has no keys"
            if unplaced := why_unplaced(each.node.schema, each.exchange.keys):
                return unplaced
    for table in tables:
        if not hashable(table.schema, tuple(range(len(table.schema)))):
            return f"{table.name} has no columns to distribute its rows by"
    return ""


def meeting(
    operators: tuple[InnerOperator, ...], roots: tuple[PhysicalNode, ...]
) -> tuple[InnerOperator, ...]:
    """The operators of the roots with the keys by which they need their rows."""
    nodes = [n for n in walk_plan(roots) if isinstance(n.spec, InnerSpec)]
    return tuple(
        replace(inner, exchanges=tuple(i.exchange.keys for i in node.inputs))
        for inner, node in zip(operators, nodes, strict=True)
    )


def keys_of_readers(number: int, operators: tuple[InnerOperator, ...]) -> Iterator[tuple[int, ...]]:
    """The keys by which operators need the rows of this number."""
    for inner in operators:
        for sources, keys in zip(inner.inputs, inner.exchanges, strict=True):
            if number in sources and keys:
                yield keys


def table_placements(
    first: int, tables: tuple[PhysicalNode, ...], operators: tuple[InnerOperator, ...]
) -> tuple[tuple[int, ...], ...]:
    """A table's rows come to where the first operator that reads them by keys needs them. Their numbers begin with `first`."""
    return tuple(
        next(keys_of_readers(number, operators), hashable(table.schema, tuple(range(len(table.schema)))))
        for number, table in enumerate(tables, first)
    )


def placed(
    sources: tuple[PhysicalNode, ...], placements: tuple[tuple[int, ...], ...]
) -> tuple[PhysicalInput, ...]:
    exchanges = [hash_or_singleton(keys) for keys in placements] or [SINGLETON] * len(sources)
    return tuple(map(PhysicalInput, sources, exchanges))


@dataclasses.dataclass(frozen=True)
class _Step:
    """A planned step: `root` with its operators, and the `tables` that it reads, which are inputs of the Iterate from 1 on."""

    root: PhysicalNode
    tables: tuple[PhysicalNode, ...]
    operators: tuple[InnerOperator, ...]
    results: tuple[int, ...]


def _planned(
    planning: Planning, inputs: Inputs, node: Iterate, has_rounds: bool, is_insert_only: bool
) -> _Step:
    tables: dict[base.RelationalNode, PhysicalNode] = {}

    def input_of(below: base.RelationalNode) -> base.RelationalNode:
        if isinstance(below, RecursiveScan):
            fields = (*below.schema.fields, ROUND) if has_rounds else below.schema.fields
            return IterateInput(
                ordinal=0, is_insert_only=is_insert_only, schema=Schema(fields), span=below.span
            )
        table = tables.setdefault(below, inputs.of(below, False))
        return IterateInput(
            ordinal=1 + list(tables).index(below),
            is_insert_only=table.traits.is_insert_only,
            schema=below.schema,
            span=below.span,
        )

    lifted = lift_step(node.step, node.level, has_rounds, input_of)
    (root,) = plan_parts(inner_planning(planning, (lifted,)), (lifted,))
    operators, (results,) = inner_operators((root,), 1 + len(tables))
    return _Step(root, tuple(tables.values()), operators, results)


def inner_planning(planning: Planning, roots: tuple[base.RelationalNode, ...]) -> Planning:
    """How what runs within an operator is planned: in one task, in one phase. What is kept is what later rows are made of: it has
    no time to live."""
    own = {"table.exec.state.ttl": "0 ms", "table.optimizer.agg-phase-strategy": "ONE_PHASE"}
    return Planning({**planning.settings, **own}, planning.connectors, shared_nodes(roots))


def inner_operators(
    roots: tuple[PhysicalNode, ...], first: int, refused: Refusal = refused
) -> tuple[tuple[InnerOperator, ...], tuple[tuple[int, ...], ...]]:
    """The operators of steps, whose numbers begin with `first`, and what the results of each step are."""
    operators: list[InnerOperator] = []
    numbers: dict[int, tuple[int, ...]] = {}
    for node in walk_plan(roots):
        below = tuple(numbers[id(i.node)] for i in node.inputs)
        if node.spec is None:
            numbers[id(node)] = tuple(number for each in below for number in each)
        elif isinstance(node.spec, IterateInputSpec):
            numbers[id(node)] = (node.spec.ordinal,)
        elif isinstance(node.spec, InnerSpec):
            numbers[id(node)] = (first + len(operators),)
            insert_only = node.traits.is_insert_only
            operators.append(InnerOperator(node.name, node.spec, below, node.schema, insert_only))
        elif isinstance(node.spec, SingleRowCheckSpec):
            hint = "have it give one row: (SELECT MAX(x) FROM …)"
            raise refused("a subquery as a value, which may have several rows, is", node.span, hint)
        else:
            raise refused(f"{node.name} is", node.span, "")
    return tuple(operators), tuple(numbers[id(root)] for root in roots)
