"""The queries of WITH MUTUALLY RECURSIVE over rows that come and go in rounds.

The rows of a query differ from round to round. Within the operator each row has two further columns: a turn (see
specs.MutualIterateSpec), and a sign: 1 if it comes in that turn, -1 if it goes. The rows of a turn are those that came until
then, without those that went.

* A projection, a filter and a UNION ALL treat rows that come and rows that go alike.
* A joined row has the later turn of its two rows, and the product of their signs.
* An aggregate, a ranking and OVER depend on all rows of a group. Unroll finds the turns in which a row of the group comes or
  goes; a result is computed for each pair of neighbouring turns, comes in the first of them and goes in the second.

These are the differences of "Differential dataflow" (McSherry, Murray, Isaacs, Isard; CIDR 2013), over rounds alone: the changes
of the tables are those of the changelog.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec

from sqlstream.errors import Span, UserError
from sqlstream.expressions import (
    AggregateCall,
    Call,
    Expression,
    InputRef,
    Literal,
    conjunction,
    conjuncts,
    references,
    remap,
)
from sqlstream.planner.relational import nodes as plan
from sqlstream.planner.relational.recursive_query import (
    Iterate,
    MutualIterate,
    Unroll,
)
from sqlstream.planner.relational.recursive_step import (
    ROUND,
    Lifting,
    in_order,
    time_refusal,
    turned_semi_join,
)
from sqlstream.schema import Field, Schema
from sqlstream.specs.iterate import (
    ROUND_MAX,
    SIGN_COLUMN,
)
from sqlstream.specs.join import JoinKind
from sqlstream.types import BIGINT, BOOLEAN, LogicalType, TypeRoot

_WHOLE = BIGINT.not_null()
SIGN = Field(SIGN_COLUMN, _WHOLE)
EXTRA = (ROUND, SIGN)
_BETWEEN = (Field("$from", _WHOLE), Field("$to", _WHOLE))


def refused(what: str, span: Span | None, hint: str = "") -> UserError:
    message = f"{what} not possible over the rows of a query of WITH MUTUALLY RECURSIVE"
    return UserError("SS3512", message, span=span, hint=hint)


class Differences(Lifting):
    """The two columns are the last ones. State: that of `Lifting`."""

    all_that_is_kept = "all that recursive queries keep"
    extra: tuple[Field, ...] = EXTRA
    """The columns behind those of each node."""

    def refused(self, what: str, span: Span | None, hint: str = "") -> UserError:
        return refused(what, span, hint)

    def of_rounds(self, node: plan.RelationalNode) -> plan.RelationalNode:
        """The rows of the node with the two columns. What reads no query is there before the first round."""
        lifted = self.lift(node)
        if self.reads(node):
            return lifted
        always = [_number(0), _number(1)][: len(self.extra)]
        return _computed(lifted, [*_columns(lifted), *always], self._wider(node.schema))

    def _wider(self, schema: Schema) -> tuple[Field, ...]:
        return (*schema.fields, *self.extra)

    def _by_node(self, node: plan.RelationalNode) -> plan.RelationalNode:
        match node:
            case plan.Project():
                below = self.lift(node.input)
                extras = _columns(below)[-len(self.extra) :]
                return _computed(below, [*node.expressions, *extras], self._wider(node.schema))
            case plan.Union():
                branches = tuple(map(self.of_rounds, node.branches))
                return dataclasses.replace(node, branches=branches, schema=Schema(self._wider(node.schema)))
            case plan.Join():
                return self._join(node)
            case plan.Aggregate():
                return self._aggregate(node)
            case plan.Rank() | plan.Window():
                return self._of_partitions(node)
            case plan.Expand() | plan.Unnest():
                return self._with_more_columns(node)
            case Iterate() | MutualIterate():
                hint = "write its queries into the outer WITH MUTUALLY RECURSIVE"
                raise refused("another recursive query is", node.span, hint)
        raise refused(*time_refusal(node))

    # -- rows by themselves ------------------------------------------------------------------------

    def _with_more_columns(self, node: plan.Expand | plan.Unnest) -> plan.RelationalNode:
        """Of a node that passes on columns of its input, and has its own behind them."""
        below = self.lift(node.input)
        extra = len(self.extra)
        width = len(below.schema) - extra
        if isinstance(node, plan.Unnest):
            count = len(node.columns)
            own = node.schema.fields[count:]
            fields = (*node.schema.fields[:count], *self.extra, *own)
            columns = (*node.columns, *range(width, width + extra))
            made: plan.RelationalNode = dataclasses.replace(
                node, input=below, columns=columns, schema=Schema(fields)
            )
        else:
            count, own = width, node.schema.fields[width:]
            made = dataclasses.replace(node, input=below, schema=Schema((*below.schema.fields, *own)))
        first = count + extra
        return in_order(made, [*range(count), *range(first, len(made.schema)), *range(count, first)])

    # -- rows by group -----------------------------------------------------------------------------

    def _between(self, below: plan.RelationalNode, keys: tuple[int, ...]) -> Unroll:
        fields = (*below.schema.fields[:-2], *_BETWEEN)
        return Unroll(input=below, keys=keys, schema=Schema(fields), span=below.span)

    def _aggregate(self, node: plan.Aggregate) -> plan.RelationalNode:
        if not node.calls:
            below = self.lift(node.input)
            width = len(below.schema) - 2
            keys = in_order(below, [*node.keys, width, width + 1])
            every = tuple(range(len(node.keys)))
            return Unroll(input=keys, keys=every, is_distinct=True, schema=keys.schema, span=node.span)
        if not node.keys:
            return self._aggregate_of_all(node)
        if all(map(is_extreme, node.calls, node.schema.types[len(node.keys) :])):
            below = self.lift(node.input)
            width = len(below.schema) - 2
            columns = [*node.keys, *(call.args[0] for call in node.calls), width, width + 1]
            return Unroll(
                input=in_order(below, columns),
                keys=tuple(range(len(node.keys))),
                is_greatest=tuple(call.function == "MAX" for call in node.calls),
                schema=Schema(self._wider(node.schema)),
                span=node.span,
            )
        return self._grouped(node, self.lift(node.input))

    def _grouped(self, node: plan.Aggregate, input: plan.RelationalNode) -> plan.RelationalNode:
        below = self._between(input, node.keys)
        width, keys = len(below.schema) - 2, len(node.keys)
        fields = (*node.schema.fields[:keys], *_BETWEEN, *node.schema.fields[keys:])
        made = dataclasses.replace(
            node, input=below, keys=(*node.keys, width, width + 1), schema=Schema(fields)
        )
        return _comes_and_goes(made, [*range(keys), *range(keys + 2, len(fields))], keys)

    def _aggregate_of_all(self, node: plan.Aggregate) -> plan.RelationalNode:
        """With a row that is always there, and counts for no call: also without any other row there is a result."""
        below = self.lift(node.input)
        *own, round_, sign = _columns(below)
        filters = [own[c.filter] if c.filter >= 0 else Literal(True, BOOLEAN.not_null()) for c in node.calls]
        fields = (
            *(Field(f.name, f.type.with_nullable(True)) for f in node.input.schema.fields),
            *(Field(f"$filter{i}", BOOLEAN) for i in range(len(filters))),
            *EXTRA,
        )
        rows = _computed(below, [*own, *filters, round_, sign], fields)
        always = plan.Values(
            rows=((*[None] * len(own), *[False] * len(filters)),), schema=Schema(fields[:-2]), span=node.span
        )
        calls = (msgspec.structs.replace(c, filter=len(own) + i) for i, c in enumerate(node.calls))
        counted = dataclasses.replace(node, calls=tuple(calls))
        return self._grouped(counted, _union((rows, self.of_rounds(always))))

    def _of_partitions(self, node: plan.Rank | plan.Window) -> plan.RelationalNode:
        below = self._between(self.lift(node.input), node.partition_keys)
        width = len(node.input.schema)
        own = node.schema.fields[width:]
        made = dataclasses.replace(
            node,
            input=below,
            partition_keys=(*node.partition_keys, width, width + 1),
            schema=Schema((*below.schema.fields, *own)),
        )
        return _comes_and_goes(made, [*range(width), *range(width + 2, len(made.schema))], width)

    # -- joins -------------------------------------------------------------------------------------

    def _join(self, node: plan.Join) -> plan.RelationalNode:
        of_left, of_right = map(self.reads, node.inputs)
        match node.kind:
            case JoinKind.INNER:
                return self._inner(node)
            case JoinKind.LEFT | JoinKind.SEMI | JoinKind.ANTI if not of_right:
                return self._one_sided(node)
            case JoinKind.RIGHT if not of_left:
                return self._one_sided(node)
        if node.kind is JoinKind.LEFT and node.condition is None and _has_one_row(node.right):
            return self._inner(dataclasses.replace(node, kind=JoinKind.INNER))
        partners = _rows_with_partners(node) if node.kind in _WITH_PARTNERS else None
        if partners is None:
            return self._refuse_join(node)
        if node.kind is JoinKind.SEMI:
            return self.lift(partners)
        # Rows without a partner: all of the left side, and those that have one go.
        left, paired = self.of_rounds(node.left), self.lift(partners)
        *kept, sign = _columns(paired)
        gone = _computed(paired, [*kept, Call("*", (sign, _number(-1)), _WHOLE)], left.schema.fields)
        alone = _union((left, gone))
        if node.kind is JoinKind.ANTI:
            return alone
        width = len(node.left.schema)
        padding = [Literal(None, t) for t in node.schema.types[width:]]
        *own, round_, sign = _columns(alone)
        padded = _computed(alone, [*own, *padding, round_, sign], self._wider(node.schema))
        inner = self._inner(dataclasses.replace(node, kind=JoinKind.INNER))
        matched = _computed(inner, _columns(inner), padded.schema.fields)
        return _union((matched, padded))

    def _refuse_join(self, node: plan.Join) -> plan.RelationalNode:
        hint = "compare columns by = alone there, or let the recursive query be the left side of LEFT JOIN"
        what = "a row that is kept because the recursive query has no partner for it, unless by equal columns, is"
        raise refused(what, node.span, hint)

    def _one_sided(self, node: plan.Join) -> plan.RelationalNode:
        """A join in which every row of the result is made of one of the side that reads the query."""
        left, right = self.lift(node.left), self.lift(node.right)
        is_left = self.reads(node.left)
        width, right_width = len(node.left.schema), len(node.right.schema)
        first_right = len(left.schema)
        condition = conjunction(
            [remap(p, _moved(width, right_width, first_right)) for p in conjuncts(node.condition)]
        )
        fields = node.schema.fields
        if is_left:
            fields = (*fields[:width], *self.extra, *fields[width:])
        else:
            fields = (*fields, *self.extra)
        made = dataclasses.replace(node, left=left, right=right, condition=condition, schema=Schema(fields))
        if node.kind.is_left_only or not is_left:
            return made
        return in_order(made, [*range(width), *range(first_right, len(fields)), *range(width, first_right)])

    def _inner(self, node: plan.Join) -> plan.RelationalNode:
        if not all(map(self.reads, node.inputs)):
            return self._one_sided(node)
        left, right = self.lift(node.left), self.lift(node.right)
        width, right_width = len(node.left.schema), len(node.right.schema)
        first_right = len(left.schema)
        places = _moved(width, right_width, first_right)
        condition = conjunction([remap(p, places) for p in conjuncts(node.condition)])
        fields = (*node.schema.fields[:width], *self.extra, *node.schema.fields[width:], *self.extra)
        made = dataclasses.replace(node, left=left, right=right, condition=condition, schema=Schema(fields))
        rounds = InputRef(width, _WHOLE), InputRef(first_right + right_width, _WHOLE)
        signs = InputRef(width + 1, _WHOLE), InputRef(first_right + right_width + 1, _WHOLE)
        columns = [InputRef(places[i], t) for i, t in enumerate(node.schema.types)]
        extras = [Call("GREATEST", rounds, _WHOLE), Call("*", signs, _WHOLE)][: len(self.extra)]
        return _computed(made, [*columns, *extras], self._wider(node.schema))


class Ranks(Differences):
    """Of queries with SettledValues: one column, the rank of the row that a row is made of, or the greatest one of several; 0 for
    a row that is made of none. State: that of `Lifting`."""

    extra = (ROUND,)


def is_extreme(call: AggregateCall, t: LogicalType) -> bool:
    """Whether Unroll computes the call by itself."""
    return call.function in ("MIN", "MAX") and call.filter < 0 and t.root in WHOLE_NUMBERS


WHOLE_NUMBERS = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT)
_WITH_PARTNERS = (JoinKind.SEMI, JoinKind.ANTI, JoinKind.LEFT)


def _has_one_row(node: plan.RelationalNode) -> bool:
    while isinstance(node, plan.Project):
        node = node.input
    return isinstance(node, plan.Aggregate) and not node.keys


def _rows_with_partners(node: plan.Join) -> plan.RelationalNode | None:
    """The rows of the left side that have a partner, each as often as it is there; None where the condition is more than
    equalities."""
    if node.condition is not None:
        return turned_semi_join(node)
    flag = Schema((Field("$any", BOOLEAN.not_null()),))
    flags = _computed(node.right, [Literal(True, BOOLEAN.not_null())], flag.fields)
    has_any = plan.Aggregate(input=flags, keys=(0,), calls=(), schema=flag, span=node.span)
    joined = dataclasses.replace(
        node, right=has_any, kind=JoinKind.INNER, schema=node.left.schema.concat(flag)
    )
    return in_order(joined, [*range(len(node.left.schema))])


def _moved(width: int, right_width: int, first_right: int) -> dict[int, int]:
    """Where the columns of a join are when its right side begins at `first_right`."""
    return {i: i for i in range(width)} | {width + i: first_right + i for i in range(right_width)}


def _comes_and_goes(node: plan.RelationalNode, columns: list[int], between: int) -> plan.RelationalNode:
    """These columns of rows that there are between the turns in the columns `between` and the one behind it."""
    kept: list[Expression] = [*references(node.schema.types, columns)]
    first, end = InputRef(between, _WHOLE), InputRef(between + 1, _WHOLE)
    fields = (*node.schema.select(tuple(columns)).fields, *EXTRA)
    has_end = Call("<", (end, _number(ROUND_MAX)), BOOLEAN.not_null())
    ending = plan.Filter(input=node, condition=has_end, schema=node.schema, span=node.span)
    return _union(
        (
            _computed(node, [*kept, first, _number(1)], fields),
            _computed(ending, [*kept, end, _number(-1)], fields),
        )
    )


def _union(branches: tuple[plan.RelationalNode, ...]) -> plan.Union:
    return plan.Union(branches=branches, schema=branches[0].schema, span=branches[0].span)


def _computed(
    node: plan.RelationalNode, expressions: Sequence[Expression], fields: tuple[Field, ...]
) -> plan.Project:
    return plan.Project(
        input=node, expressions=tuple(expressions), schema=Schema(tuple(fields)), span=node.span
    )


def _columns(node: plan.RelationalNode) -> list[InputRef]:
    return [*references(node.schema.types)]


def _number(value: int) -> Literal:
    return Literal(value, _WHOLE)
