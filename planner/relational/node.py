"""What every node of the relational plan is, and what it answers about itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import Span
from sqlstream.expressions import Expression
from sqlstream.planner.lower.engine import refuse
from sqlstream.planner.relational.tracing import Condition
from sqlstream.planner.relational.trimming import Columns, Pruning, places_of
from sqlstream.schema import Schema

if TYPE_CHECKING:
    from sqlglot import exp

    from sqlstream.planner.lower.lowering import Lowering
    from sqlstream.planner.relational.trimming import Trimmed

Key = tuple[int, ...]

_COMPARED: dict[str, tuple[str, ...]] = {}
"""Class of a node → the fields that equality compares."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RelationalNode:
    """`schema` is the output's. `span` is the SQL that the node was bound from.

    Hash and equality are those of a dataclass. A node caches its hash and one representative of the nodes that were found
    equal to it, so that both take time linear in the number of nodes.

    The methods below are what the stages of the planner ask of a node. Each has an answer that is right for every node and
    useful for few: a node overrides those for which it has a better one."""

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

    def lower(self, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
        """A query with columns c0, c1, … over the queries of the inputs. UserError SS3301 for what a batch engine cannot
        answer exactly as the stream does."""
        raise refuse(lowering.engine.title, f"a {type(self).__name__}", span=self.span)

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


def _compared(kind: type[RelationalNode]) -> tuple[str, ...]:
    found = _COMPARED.get(kind.__name__)
    if found is None:
        found = tuple(field.name for field in dataclasses.fields(kind) if field.compare)
        _COMPARED[kind.__name__] = found
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
