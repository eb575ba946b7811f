"""The step of a recursive query over rows that have their round as last column.

A row of round n + 1 is made of rows of round n alone. So every operator of the step keeps rounds apart: a projection copies the
round, a join of two rows wants the same round of both, a grouping, a ranking and OVER have it as a further key. What counts and
retracts rows then does so exactly, also where rows are made in a circle: none is made by itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, InputRef, conjunction, conjuncts, inputs_of, references, remap
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.relational import nodes as plan
from sqlstream.planner.relational.recursive_query import Iterate, RecursiveScan, free_levels
from sqlstream.schema import Field, Schema
from sqlstream.specs.iterate import ROUND_COLUMN
from sqlstream.specs.join import JoinKind
from sqlstream.types import BIGINT, BOOLEAN

ROUND = Field(ROUND_COLUMN, BIGINT.not_null())
_EQUALITIES = ("=", "IS NOT DISTINCT FROM")

_KEPT_SIDE = {JoinKind.LEFT: 0, JoinKind.SEMI: 0, JoinKind.ANTI: 0, JoinKind.RIGHT: 1}
"""The side of a join that decides which rows there are at most."""

InputOf = Callable[[plan.RelationalNode], plan.RelationalNode]


def refused(what: str, span: Span | None, hint: str = "") -> UserError:
    return UserError("SS3404", f"{what} not possible in the step of a recursive query", span=span, hint=hint)


def time_refusal(node: plan.RelationalNode) -> tuple[str, Span | None, str]:
    """What, where and why, of a node that depends on more than the rows."""
    match node:
        case plan.WindowTvf() | plan.Watermark() | plan.MatchRecognize() | plan.LateRows():
            hint = "rows of a recursive query have no time: use windows in what it reads, or over its result"
            return "what follows event time is", node.span, hint
        case plan.LookupJoin() | plan.TemporalJoin() | plan.SnapshotJoin():
            hint = "join a table that the job reads as a whole, without FOR SYSTEM_TIME AS OF"
            return "a join with the rows of one moment is", node.span, hint
        case plan.GraphFunction() | plan.ProcessTable() | plan.ModelPredict() | plan.VectorSearch():
            hint = "call it for tables, or for the result of the recursive query"
            return "a table function over its rows is", node.span, hint
    hint = "use it in what the recursive query reads, or over its result"
    return f"{type(node).__name__} is", node.span, hint


def treats_rows_alone(step: plan.RelationalNode, level: int) -> bool:
    """Whether the step makes rows of each row of the last round alone: those of two sets of rows together are those of one and of
    the other."""
    if level not in free_levels(step):
        return True
    match step:
        case plan.Join():
            reading = [level in free_levels(side) for side in step.inputs]
            is_alone = sum(reading) == 1 and _is_kept(step.kind, reading)
            return is_alone and all(treats_rows_alone(side, level) for side in step.inputs)
        case RecursiveScan() | plan.Filter() | plan.Project() | plan.Unnest() | plan.Expand() | plan.Union():
            return all(treats_rows_alone(each, level) for each in step.inputs)
        case plan.Sort():
            return step.fetch < 0 and not step.offset and treats_rows_alone(step.input, level)
    return False


def lift_step(
    step: plan.RelationalNode, level: int, has_rounds: bool, input_of: InputOf
) -> plan.RelationalNode:
    """The step over what `input_of` puts in the place of the last round, whose last column is the round, and of each part that
    does not read it. Without rounds the same without the column. UserError SS3404 for what has no meaning by rounds, or depends
    on more than the rows."""
    return _StepLifting(level, has_rounds, input_of).lift(step)


class Lifting:
    """Puts columns of the rounds behind those of every node that reads one of the recursive queries of `levels`, over what
    `input_of` puts in the place of their rows and of each part that reads none.

    State: the nodes so far, so that what is read twice is one node."""

    all_that_is_kept = "all that a recursive query keeps"

    def __init__(self, levels: frozenset[int], input_of: InputOf) -> None:
        self._levels = levels
        self._input_of = input_of
        self._lifted: dict[int, plan.RelationalNode] = {}
        # A node that was made for the lifting alone would leave its id to another one.
        self._kept: list[plan.RelationalNode] = []

    def reads(self, node: plan.RelationalNode) -> bool:
        return bool(self._levels & free_levels(node))

    def lift(self, node: plan.RelationalNode) -> plan.RelationalNode:
        """The node with the further columns; one that reads no such query as `input_of` has it."""
        if id(node) not in self._lifted:
            self._lifted[id(node)] = self._lift(node)
            self._kept.append(node)
        return self._lifted[id(node)]

    def _lift(self, node: plan.RelationalNode) -> plan.RelationalNode:
        if isinstance(node, RecursiveScan) or not self.reads(node):
            return self._input_of(node)
        if not is_deterministic(*node.scalar_expressions()):
            hint = "a row must be made again as it was: leave out RAND(), UUID(), PROCTIME() and the like"
            raise self.refused("a value that differs each time is", node.span, hint)
        if getattr(node, "ttl_ms", None) is not None or getattr(node, "ttls_ms", (None,))[0] is not None:
            hint = f"remove the hint: later rows are made of {self.all_that_is_kept}"
            raise self.refused("STATE_TTL is", node.span, hint)
        match node:
            case plan.Filter():
                below = self.lift(node.input)
                return dataclasses.replace(node, input=below, schema=below.schema)
            case plan.Sort() if node.fetch < 0 and not node.offset:
                return self.lift(node.input)
            case plan.Sort():
                hint = "number the rows with ROW_NUMBER() and filter by the number"
                raise self.refused("LIMIT is", node.span, hint)
        return self._by_node(node)

    def _by_node(self, node: plan.RelationalNode) -> plan.RelationalNode:
        """Any other node. UserError for one that has no meaning by rounds."""
        raise NotImplementedError

    def refused(self, what: str, span: Span | None, hint: str = "") -> UserError:
        raise NotImplementedError


class _StepLifting(Lifting):
    """The round is the last column, where there are rounds. State: that of `Lifting`."""

    def __init__(self, level: int, has_rounds: bool, input_of: InputOf) -> None:
        super().__init__(frozenset({level}), input_of)
        self._has_rounds = has_rounds

    def refused(self, what: str, span: Span | None, hint: str = "") -> UserError:
        return refused(what, span, hint)

    def _by_node(self, node: plan.RelationalNode) -> plan.RelationalNode:
        match node:
            case plan.Project():
                return self._project(node)
            case plan.Union():
                return self._union(node)
            case plan.Join():
                return self._join(node)
            case plan.Aggregate():
                return self._aggregate(node)
            case plan.Rank() | plan.Window() | plan.Expand():
                return self._with_more_columns(node)
            case plan.Unnest():
                return self._unnest(node)
            case Iterate() | plan.MutualIterate():
                hint = "let the inner query read tables alone"
                raise refused("another recursive query over its own rows is", node.span, hint)
        raise refused(*time_refusal(node))

    # -- by node -----------------------------------------------------------------------------------

    def _project(self, node: plan.Project) -> plan.Project:
        below = self.lift(node.input)
        if not self._has_rounds:
            return dataclasses.replace(node, input=below)
        expressions = (*node.expressions, _round_of(below))
        return dataclasses.replace(node, input=below, expressions=expressions, schema=_wider(node.schema))

    def _union(self, node: plan.Union) -> plan.Union:
        reading = [b for b in node.branches if self.reads(b)]
        for branch in node.branches:
            if branch not in reading and not _has_no_rows(branch):
                hint = (
                    "put it before the first UNION [ALL] of the recursive query: it starts the first round only;"
                    " instead of INTERSECT and EXCEPT write EXISTS and NOT EXISTS"
                )
                raise refused("a part that does not read the recursive query itself is", branch.span, hint)
        branches = tuple(self.lift(b) for b in reading)
        return dataclasses.replace(node, branches=branches, schema=self._schema(node.schema))

    def _schema(self, schema: Schema) -> Schema:
        return _wider(schema) if self._has_rounds else schema

    def _aggregate(self, node: plan.Aggregate) -> plan.RelationalNode:
        if not node.keys and not _has_every_round(node.input):
            hint = "add GROUP BY: a round without rows for it has no result"
            raise refused("an aggregation of all rows of a round, or of none, is", node.span, hint)
        below = self.lift(node.input)
        round_ = len(below.schema) - 1
        keys = len(node.keys)
        fields = (*node.schema.fields[:keys], ROUND, *node.schema.fields[keys:])
        made = dataclasses.replace(node, input=below, keys=(*node.keys, round_), schema=Schema(fields))
        return in_order(made, [*range(keys), *range(keys + 1, len(fields)), keys])

    def _with_more_columns(self, node: plan.Rank | plan.Window | plan.Expand) -> plan.RelationalNode:
        """Of a node that passes on its input's columns, and has its own behind them."""
        below = self.lift(node.input)
        own = node.schema.fields[len(node.input.schema) :]
        made = dataclasses.replace(node, input=below, schema=Schema((*below.schema.fields, *own)))
        if not self._has_rounds:
            return made
        width = len(node.input.schema)
        if not isinstance(made, plan.Expand):
            made = dataclasses.replace(made, partition_keys=(*made.partition_keys, width))
        if not own:
            return made
        return in_order(made, [*range(width), *range(width + 1, len(made.schema)), width])

    def _unnest(self, node: plan.Unnest) -> plan.RelationalNode:
        below = self.lift(node.input)
        if not self._has_rounds:
            return dataclasses.replace(node, input=below)
        count = len(node.columns)
        columns = (*node.columns, len(below.schema) - 1)
        fields = (*node.schema.fields[:count], ROUND, *node.schema.fields[count:])
        made = dataclasses.replace(node, input=below, columns=columns, schema=Schema(fields))
        return in_order(made, [*range(count), *range(count + 1, len(fields)), count])

    def _join(self, node: plan.Join) -> plan.RelationalNode:
        reading = [self.reads(side) for side in node.inputs]
        if node.kind is JoinKind.SEMI and reading == [False, True]:
            turned = turned_semi_join(node)
            if turned is not None:
                return self.lift(turned)
        if not _is_kept(node.kind, reading):
            hint = (
                "it would come again in every round: let the recursive query be the side whose rows are kept"
            )
            what = "a row that is kept because the recursive query has no partner for it is"
            raise refused(what, node.span, hint)
        left, right = self.lift(node.left), self.lift(node.right)
        if not self._has_rounds:
            return dataclasses.replace(node, left=left, right=right)
        width, right_width = len(node.left.schema), len(node.right.schema)
        first_right = len(left.schema)
        places = {i: i for i in range(width)} | {width + i: first_right + i for i in range(right_width)}
        parts = [remap(p, places) for p in conjuncts(node.condition)]
        if all(reading):
            rounds = (InputRef(width, ROUND.type), InputRef(first_right + right_width, ROUND.type))
            parts.insert(0, Call("=", rounds, BOOLEAN.not_null()))
        fields = _joined_fields(node, left.schema, right.schema)
        made = dataclasses.replace(
            node, left=left, right=right, condition=conjunction(parts), schema=Schema(fields)
        )
        if node.kind.is_left_only:
            return made
        round_ = width if reading[0] and node.kind is not JoinKind.RIGHT else first_right + right_width
        return in_order(made, [*(places[i] for i in range(width + right_width)), round_])


def _is_kept(kind: JoinKind, reading: list[bool]) -> bool:
    """Whether every row of the join is made of a row of the last round, where these sides read it."""
    return any(reading) if kind is JoinKind.INNER else kind in _KEPT_SIDE and reading[_KEPT_SIDE[kind]]


def _joined_fields(node: plan.Join, left: Schema, right: Schema) -> tuple[Field, ...]:
    """The fields of the join as they were, with those of the rounds, which are NULL on a side that is not kept."""
    width, right_width = len(node.left.schema), len(node.right.schema)
    of_left, of_right = (
        tuple(Field(f.name, f.type.with_nullable(node.kind.pads(1 - side))) for f in rounds)
        for side, rounds in enumerate((left.fields[width:], right.fields[right_width:]))
    )
    fields = (*node.schema.fields[:width], *of_left)
    if node.kind.is_left_only:
        return fields
    return (*fields, *node.schema.fields[width:], *of_right)


def turned_semi_join(node: plan.Join) -> plan.RelationalNode | None:
    """`t WHERE x IN (SELECT y FROM r)` as a join with the distinct values, of which a row of `t` has one at most; None where the
    condition is more than equalities."""
    width = len(node.left.schema)
    read: list[int] = []
    for part in conjuncts(node.condition):
        if not (isinstance(part, Call) and part.function in _EQUALITIES):
            return None
        sides = [inputs_of(argument) for argument in part.args]
        own = [a for a in part.args if isinstance(a, InputRef) and a.index >= width]
        if len(own) != 1 or sorted(max(s, default=0) >= width for s in sides) != [False, True]:
            return None
        read.append(own[0].index)
    columns = tuple(sorted(set(read)))
    keys = tuple(c - width for c in columns)
    if not keys:
        return None
    values = plan.Aggregate(
        input=node.right, keys=keys, calls=(), schema=node.right.schema.select(keys), span=node.span
    )
    places = {i: i for i in range(width)} | {c: width + i for i, c in enumerate(columns)}
    condition = conjunction([remap(p, places) for p in conjuncts(node.condition)])
    joined = plan.Join(
        left=node.left,
        right=values,
        kind=JoinKind.INNER,
        condition=condition,
        schema=node.left.schema.concat(values.schema),
        span=node.span,
    )
    return in_order(joined, list(range(width)))


def _has_no_rows(node: plan.RelationalNode) -> bool:
    """Whether a condition that never holds has left nothing of it."""
    if isinstance(node, plan.Values):
        return not node.rows
    if isinstance(node, plan.Aggregate) and not node.keys:
        return False
    are_empty = [_has_no_rows(each) for each in node.inputs]
    if isinstance(node, plan.Join) and not all(are_empty):
        left, right = are_empty
        return (left and not node.kind.outputs_unmatched(1)) or (right and not node.kind.outputs_unmatched(0))
    return bool(are_empty) and all(are_empty)


def _has_every_round(node: plan.RelationalNode) -> bool:
    """Whether `node` has a row of every round that there is."""
    while isinstance(node, plan.Project):
        node = node.input
    return isinstance(node, RecursiveScan)


def _wider(schema: Schema) -> Schema:
    return Schema((*schema.fields, ROUND))


def _round_of(node: plan.RelationalNode) -> InputRef:
    return InputRef(len(node.schema) - 1, ROUND.type)


def in_order(node: plan.RelationalNode, columns: list[int]) -> plan.Project:
    """These columns of the node."""
    return plan.Project(
        input=node,
        expressions=references(node.schema.types, columns),
        schema=node.schema.select(tuple(columns)),
        span=node.span,
    )
