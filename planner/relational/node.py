"""What every node of the relational plan is, and what it answers about itself."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Protocol

import msgspec

from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import Span
from sqlstream.expressions import (
    Call,
    Expression,
    InputRef,
    Literal,
    SortKey,
    inputs_of,
    references,
    substitute,
    walk,
)
from sqlstream.planner.physical.node import Columns
from sqlstream.schema import Schema
from sqlstream.types import LogicalType, TypeRoot, is_numeric, is_rowtime

Key = tuple[int, ...]

_COMPARED: dict[type[RelationalNode], tuple[str, ...]] = {}
"""Class of a node → the fields that equality compares."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RelationalNode:
    """`schema` is the output's. `span` is the SQL that the node was bound from.

    Hash and equality are those of a dataclass. A node caches its hash, and one representative of the nodes that were found
    equal to it. So both take time linear in the number of nodes.

    The methods below are what the stages of the planner ask of a node. Each has an answer that is right for every node and
    useful for few: a node overrides those for which it has a better one."""

    is_reusable: ClassVar[bool] = True
    """Whether equal nodes are one: a sink writes as often as the statement says."""

    schema: Schema
    span: Span | None = dataclasses.field(default=None, compare=False)

    def __hash__(self) -> int:
        kept: int | None = self.__dict__.get("_hash")
        if kept is None:
            kept = hash((type(self), _compared_values(self)))
            self.__dict__["_hash"] = kept
        return kept

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, RelationalNode) or type(self) is not type(other):
            return False
        a, b = _representative(self), _representative(other)
        if a is b:
            return True
        if hash(a) != hash(b) or _compared_values(a) != _compared_values(b):
            return False
        b.__dict__["_equal"] = a
        return True

    @property
    def inputs(self) -> tuple[RelationalNode, ...]:
        return ()

    def with_inputs(self, inputs: tuple[RelationalNode, ...]) -> RelationalNode:
        """The same node over other inputs (same schemas)."""
        assert not inputs
        return self

    def describe(self) -> str:
        """The parameters of the node for EXPLAIN, without its name and inputs."""
        return ""

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        """The node with at least the `wanted` columns (never none), and where its columns then are. `time`: an operator above
        needs the watermark of its rows. This one reads every column of its inputs, and their watermarks."""
        inputs = tuple(pruning.exactly(i, frozenset(range(len(i.schema))), True) for i in self.inputs)
        return self.with_inputs(inputs), places_of(tuple(range(len(self.schema))))

    def result_keys(self) -> tuple[Key, ...]:
        """Sets of columns whose values occur in one row of the finished result at most, the best first."""
        return ()

    def passed(self, conditions: tuple[Condition, ...]) -> list[list[Condition]]:
        """The conditions that each input gets, so that the rows it has under them contribute to the rows of the output under
        `conditions`."""
        return [[] for _ in self.inputs]

    def origin(self, column: int) -> tuple[RelationalNode, int] | None:
        """The input and its column that `column` of the output is an unchanged copy of; None where it is made here."""
        return None

    def scalar_expressions(self) -> tuple[Expression, ...]:
        """All expressions over columns that the node computes."""
        return ()


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SingleInputNode(RelationalNode):
    input: RelationalNode

    @property
    def inputs(self) -> tuple[RelationalNode, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[RelationalNode, ...]) -> RelationalNode:
        return dataclasses.replace(self, input=inputs[0])

    def copied(self, column: int) -> tuple[RelationalNode, int] | None:
        """The `origin` of a node that passes on the columns of its input and appends some."""
        return (self.input, column) if column < len(self.input.schema) else None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SameColumnsNode(SingleInputNode):
    """A node that passes on the columns of its input, and makes none."""

    def result_keys(self) -> tuple[Key, ...]:
        return self.input.result_keys()

    def passed(self, conditions: tuple[Condition, ...]) -> list[list[Condition]]:
        return [[*conditions]]

    def origin(self, column: int) -> tuple[RelationalNode, int] | None:
        return self.input, column


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ChosenColumnsNode(SingleInputNode):
    """A node with the `columns` of its input, then columns that it makes."""

    columns: tuple[int, ...]

    def passed(self, conditions: tuple[Condition, ...]) -> list[list[Condition]]:
        below = references(self.input.schema.types, self.columns)
        found = of_columns(conditions, range(len(below)))
        return [[Condition(substitute(c.expression, below), c.is_of_key) for c in found]]

    def origin(self, column: int) -> tuple[RelationalNode, int] | None:
        return (self.input, self.columns[column]) if column < len(self.columns) else None

    def read_columns(self) -> Columns:
        """The columns of the input that what it makes is made of."""
        raise NotImplementedError

    def with_read_columns(self, places: Mapping[int, int]) -> dict[str, object]:
        """The fields that name those, where the columns of the input have gone to these places."""
        raise NotImplementedError

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        count = len(self.columns)
        kept = tuple(p for p in range(count) if p in wanted)
        below = frozenset(self.columns[p] for p in kept) | self.read_columns()
        source, places = pruning.trim(self.input, below, time)
        output = (*kept, *range(count, len(self.schema)))
        made = over_input(
            self,
            source,
            schema=self.schema.select(output),
            columns=tuple(places[self.columns[p]] for p in kept),
            **self.with_read_columns(places),
        )
        return made, {old: new for new, old in enumerate(output)}

    @property
    def places(self) -> dict[int, Columns]:
        """Where the columns of the input are."""
        found: dict[int, Columns] = {}
        for place, column in enumerate(self.columns):
            found[column] = found.get(column, frozenset()) | {place}
        return found


def _compared(kind: type[RelationalNode]) -> tuple[str, ...]:
    found = _COMPARED.get(kind)
    if found is None:
        found = tuple(field.name for field in dataclasses.fields(kind) if field.compare)
        _COMPARED[kind] = found
    return found


def _compared_values(node: RelationalNode) -> tuple[object, ...]:
    kind: Any = type(node)
    return tuple(getattr(node, name) for name in _compared(kind))


def _representative(node: RelationalNode) -> RelationalNode:
    """The common representative of all nodes that were found equal to `node`."""
    while "_equal" in node.__dict__:
        node = node.__dict__["_equal"]
    return node


def rewrite(node: RelationalNode, rule: Callable[[RelationalNode], RelationalNode]) -> RelationalNode:
    """Apply `rule` bottom-up, to each node once, after its inputs."""
    done: dict[int, RelationalNode] = {}

    def visit(node: RelationalNode) -> RelationalNode:
        if id(node) not in done:
            check_not_given_up()
            inputs = tuple(visit(i) for i in node.inputs)
            is_same = all(new is old for new, old in zip(inputs, node.inputs, strict=True))
            done[id(node)] = rule(node if is_same else node.with_inputs(inputs))
        return done[id(node)]

    return visit(node)


def walk_nodes(root: RelationalNode) -> Iterator[RelationalNode]:
    """The node and all below it, each once, in the order of the statement."""
    seen: set[int] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            pending.extend(reversed(node.inputs))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TwoInputNode(RelationalNode):
    left: RelationalNode
    right: RelationalNode

    @property
    def inputs(self) -> tuple[RelationalNode, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[RelationalNode, ...]) -> RelationalNode:
        return dataclasses.replace(self, left=inputs[0], right=inputs[1])


# Conditions on the rows of a result, as nodes hand them down to their inputs (client/verification/contributing.py).


EQUAL = "IS NOT DISTINCT FROM"


@dataclasses.dataclass(frozen=True)
class Condition:
    """A part of a WHERE. `is_of_key`: it follows from the values of the result's row; else the statement itself filters so."""

    expression: Expression
    is_of_key: bool


def of_columns(conditions: Iterable[Condition], columns: Iterable[int]) -> list[Condition]:
    """The conditions that read only these columns, and at least one."""
    allowed = frozenset(columns)
    return [c for c in conditions if (read := inputs_of(c.expression)) and read <= allowed]


def accepts_null(condition: Condition) -> bool:
    """Whether it may hold for the NULLs of an outer join's missing side, of which no row of a table is the origin."""
    expression = condition.expression
    if isinstance(expression, Call) and expression.function == EQUAL:
        value = expression.args[1]
        return not isinstance(value, Literal) or value.value is None
    return isinstance(expression, Call) and expression.function not in ("=", "<", "<=", ">", ">=")


# What nodes need to narrow themselves to the columns that are read (see sqlstream.planner.rules.column_pruning).


Trimmed = tuple["RelationalNode", dict[int, int]]
"""A node with at least the wanted columns, and the map from old to new column numbers."""


class Pruning(Protocol):
    """One walk over a statement set. Equal requests get the same node."""

    def trim(self, node: RelationalNode, wanted: Columns, time: bool) -> Trimmed:
        """`node` with at least the wanted columns. `time`: an operator above needs the watermark of this input."""

    def exactly(self, node: RelationalNode, wanted: Columns, time: bool) -> RelationalNode:
        """`node` with exactly the wanted columns in ascending order, as before an exchange."""


def places_of(kept: tuple[int, ...]) -> dict[int, int]:
    """Where columns are when only `kept` are left, in this order."""
    return {old: new for new, old in enumerate(kept)}


def over_input(node: RelationalNode, source: RelationalNode, **changes: object) -> RelationalNode:
    """A node of one input over `source`, whose schema it has unless `changes` gives one."""
    changes.setdefault("schema", source.schema)
    return dataclasses.replace(node, input=source, **changes)  # type: ignore[call-arg,arg-type]


def one_column(schema: Schema) -> Columns:
    """The cheapest column: a batch without columns has no number of rows."""

    def cost(item: tuple[int, LogicalType]) -> int:
        return 0 if is_numeric(item[1]) and item[1].root is not TypeRoot.DECIMAL else 1

    return frozenset({min(enumerate(schema.types), key=cost)[0]})


def moved_order(order: tuple[SortKey, ...], places: dict[int, int]) -> tuple[SortKey, ...]:
    return tuple(msgspec.structs.replace(k, column=places[k.column]) for k in order)


def marked(schema: Schema, column: int, time: LogicalType) -> Schema:
    """The schema with `column` of type `time`."""
    field = msgspec.structs.replace(schema.fields[column], type=time)
    return Schema((*schema.fields[:column], field, *schema.fields[column + 1 :]))


def reads_watermark(expressions: Iterable[Expression]) -> bool:
    return any(
        isinstance(n, Call) and n.function == "CURRENT_WATERMARK"
        for expression in expressions
        for n in walk(expression)
    )


def reads_time(expression: Expression) -> bool:
    """Whether it reads a row time."""
    return any(isinstance(n, InputRef) and is_rowtime(n.type) for n in walk(expression))


# Parts of the text by which EXPLAIN describes a node; columns of an input are written $0, $1, … as in Flink.


def columns_text(indexes: Iterable[int]) -> str:
    return ", ".join(f"${i}" for i in indexes)


def order_text(keys: tuple[SortKey, ...]) -> str:
    return ", ".join(f"{k} NULLS {'FIRST' if k.is_nulls_first else 'LAST'}" for k in keys)


def join_parts(*parts: str) -> str:
    return ", ".join(p for p in parts if p)


# The relational plan as text: one line per node, inputs below and indented.


LINES_MAX = 10_000


def explain_relation(node: RelationalNode) -> str:
    """The plan as a tree; columns of a node's input are written $0, $1, … as in Flink. A node is printed below each of its
    readers, so the tree can be exponentially larger than the plan: it ends after LINES_MAX lines."""
    lines = list(itertools.islice(_lines(node, "", ""), LINES_MAX + 1))
    if len(lines) > LINES_MAX:
        lines[LINES_MAX:] = [f"… and more than these {LINES_MAX} lines"]
    return "\n".join(lines)


def _lines(node: RelationalNode, first: str, rest: str) -> Iterator[str]:
    """The lines of a node: `first` is the prefix of its own line, `rest` that of its inputs' lines."""
    yield f"{first}{type(node).__name__}({node.describe()})"
    for position, child in enumerate(node.inputs):
        is_last = position == len(node.inputs) - 1
        yield from _lines(child, rest + ("+- " if is_last else ":- "), rest + ("   " if is_last else ":  "))
