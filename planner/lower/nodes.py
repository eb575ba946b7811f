"""How each node of the relational plan is written in SQL, over the queries of its inputs."""

from __future__ import annotations

import functools

from sqlglot import exp

from sqlstream.expressions import Call, Expression, InputRef, Literal, conjuncts, references
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.engine import refuse
from sqlstream.planner.lower.lowering import Lowering, numbered, ordered
from sqlstream.planner.lower.mutual_recursion import lower_mutual_iterate
from sqlstream.planner.lower.over import lower_over_call
from sqlstream.planner.lower.scan import lower_scan
from sqlstream.planner.lower.windows import lower_window_tvf
from sqlstream.planner.relational import nodes as plan
from sqlstream.planner.relational.expand import EXPAND_ID
from sqlstream.specs.join import JoinKind
from sqlstream.types import BOOLEAN, INT, TypeRoot

_SIDES = {
    JoinKind.INNER: None,
    JoinKind.LEFT: "LEFT",
    JoinKind.RIGHT: "RIGHT",
    JoinKind.FULL: "FULL",
}


@functools.singledispatch
def lower_node(node: plan.RelationalNode, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    """A query with columns c0, c1, … over the queries of the inputs. UserError SS3301 for what a batch engine cannot answer
    exactly as the stream does."""
    hint = "run the statement as a stream: it ends by itself when its input is bounded"
    raise refuse(lowering.engine.title, _named(node), hint=hint, span=node.span)


def _named(node: plan.RelationalNode) -> str:
    """A node that only streams have, in the words of its statement."""
    match node:
        case plan.FromChangelog():
            return "FROM_CHANGELOG"
        case plan.ToChangelog():
            return "TO_CHANGELOG"
        case plan.LateRows():
            return "a table of late rows"
        case plan.MatchRecognize():
            return "MATCH_RECOGNIZE"
        case plan.GraphFunction():
            return node.algorithm.value
        case plan.VectorSearch():
            return "VECTOR_SEARCH"
        case plan.ModelPredict():
            return "ML_PREDICT"
        case plan.TrainModel():
            return "CREATE MODEL … AS"
        case plan.ProcessTable():
            return f"process table function {node.ref.name}"
        case plan.ProcessOutput():
            return "a side output"
    return f"a {type(node).__name__}"


@lower_node.register
def _table_scan(node: plan.TableScan, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    return lower_scan(node, lowering)


@lower_node.register
def _filter(node: plan.Filter, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    parts = conjuncts(node.condition)
    if isinstance(node.input, plan.TableScan):
        parts = tuple(part for part in parts if part not in node.input.filters)
    if not parts:
        return inputs[0]
    return tree.select_all(inputs[0], where=lowering.condition(parts))


@lower_node.register
def _project(node: plan.Project, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    columns = [lowering.expression(e) for e in node.expressions]
    return tree.select(numbered(columns), tree.subquery(inputs[0], "i"))


@lower_node.register
def _aggregate(node: plan.Aggregate, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    columns = [tree.input_column(k) for k in node.keys]
    columns += [lowering.aggregate(node, call) for call in node.calls]
    group = [tree.input_column(k) for k in node.keys]
    return tree.select(numbered(columns), tree.subquery(inputs[0], "i"), group=group)


@lower_node.register
def _join(node: plan.Join | plan.Apply, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    """Of an Apply a lateral join: expressions of the subquery know the left side as `outer_` and the depth."""
    left, right = inputs
    split = len(node.left.schema)
    name = f"outer_{node.depth}" if isinstance(node, plan.Apply) else "l"

    def column(index: int) -> exp.Expr:
        return tree.input_column(index, name) if index < split else tree.input_column(index - split, "r")

    is_inner = node.kind is JoinKind.INNER
    condition = lowering.join_condition(node.condition, column, split, is_inner=is_inner)
    if node.kind.is_left_only:
        exists: exp.Expr = exp.Exists(
            this=tree.select([tree.number(1)], tree.subquery(right, "r"), where=condition)
        )
        is_anti = node.kind is JoinKind.ANTI
        return tree.select_all(left, name, where=tree.negated(exists) if is_anti else exists)
    joined: exp.Expr = tree.subquery(right, "r")
    if isinstance(node, plan.Apply):
        joined = exp.Lateral(this=exp.Subquery(this=right), alias=exp.TableAlias(this=exp.to_identifier("r")))
    columns = numbered(column(i) for i in range(len(node.schema)))
    join = exp.Join(this=joined, side=_SIDES[node.kind], on=condition)
    return tree.select(columns, tree.subquery(left, name), joins=[join])


@lower_node.register
def _temporal_join(node: plan.TemporalJoin, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    """A join of ranges: a version is valid until the next one of its key."""
    left, right = inputs
    split, width = len(node.left.schema), len(node.right.schema)

    def column(index: int) -> exp.Expr:
        return tree.input_column(index, "l") if index < split else tree.input_column(index - split, "r")

    time = tree.input_column(node.right_time)
    partition = [tree.input_column(k) for k in node.right_keys]
    until = tree.over(tree.call("lead", time), partition, [exp.Ordered(this=time.copy(), desc=False)])
    versions = tree.select([exp.Star(), tree.alias(until, f"c{width}")], tree.subquery(right, "i"))
    as_of, until = tree.input_column(node.left_time, "l"), tree.input_column(width, "r")
    parts = [
        tree.operate(exp.EQ, tree.input_column(a, "l"), tree.input_column(b, "r"))
        for a, b in zip(node.left_keys, node.right_keys, strict=True)
    ]
    parts.append(tree.operate(exp.GTE, as_of, tree.input_column(node.right_time, "r")))
    parts.append(tree.any_of([tree.is_null(until), tree.operate(exp.LT, as_of.copy(), until.copy())]))
    if node.condition is not None:
        is_inner = node.kind is JoinKind.INNER
        parts.append(lowering.join_condition(node.condition, column, split, is_inner=is_inner))
    join = exp.Join(this=tree.subquery(versions, "r"), side=_SIDES[node.kind], on=tree.all_of(parts))
    columns = numbered(column(i) for i in range(len(node.schema)))
    return tree.select(columns, tree.subquery(left, "l"), joins=[join])


@lower_node.register
def _expand(node: plan.Expand, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    """A cross join with the numbers of the sets."""
    id_ = tree.column("e", "n")
    columns = [_grouped_column(node, i, id_) for i in range(len(node.input.schema))]
    columns.append(tree.cast(id_, lowering.engine.type_(EXPAND_ID.type)))
    numbers = exp.Values(
        expressions=[exp.Tuple(expressions=[tree.number(i)]) for i in range(len(node.sets))],
        alias=exp.TableAlias(this=exp.to_identifier("n"), columns=[exp.to_identifier("e")]),
    )
    join = exp.Join(this=numbers, kind="CROSS")
    return tree.select(numbered(columns), tree.subquery(inputs[0], "i"), joins=[join])


def _grouped_column(node: plan.Expand, column: int, id_: exp.Expr) -> exp.Expr:
    value = tree.input_column(column)
    if column not in node.grouped:
        return value
    within = [tree.operate(exp.EQ, id_, tree.number(i)) for i, s in enumerate(node.sets) if column in s]
    return tree.case([(tree.any_of(within), value)], tree.null())


@lower_node.register
def _unnest(node: plan.Unnest, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    """First a row per element with its number, then the element by its number."""
    engine, t = lowering.engine, node.input.schema.types[node.collection]
    if t.root is not TypeRoot.ARRAY:
        raise refuse(engine.title, f"UNNEST of {t.with_nullable(True)}", span=node.span)
    width = len(node.input.schema)
    number = engine.element_numbers(tree.input_column(node.collection), node.is_outer)
    columns = [tree.input_column(i) for i in range(width)]
    numbers = tree.select(numbered([*columns, number]), tree.subquery(inputs[0], "i"))
    lowered = [lowering.expression(e) for e in _unnested(node)]
    return tree.select(numbered(lowered), tree.subquery(numbers, "i"))


def _unnested(node: plan.Unnest) -> list[Expression]:
    """Expressions over the input's columns and the number of the element behind them."""
    types = node.input.schema.types
    collection, number = InputRef(node.collection, types[node.collection]), InputRef(len(types), INT)
    assert collection.type.element is not None
    element = Call("ITEM", (collection, number), collection.type.element.with_nullable(True))
    output: list[Expression] = [*references(types, node.columns)]
    if element.type.root is TypeRoot.ROW:
        fields = enumerate(element.type.fields)
        places = [(Literal(i, INT.not_null()), f.type.with_nullable(True)) for i, f in fields]
        output += [Call("FIELD", (element, place), t) for place, t in places]
    else:
        output.append(element)
    return [*output, number] if node.has_ordinality else output


@lower_node.register
def _union(node: plan.Union, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    """Each branch is a subquery, since it may have an order or a limit of its own."""
    if len(inputs) == 1:
        return inputs[0]
    made: exp.Expr = tree.select_all(inputs[0])
    for branch in inputs[1:]:
        made = exp.Union(this=made, expression=tree.select_all(branch), distinct=False)
    return made


@lower_node.register
def _recursive_scan(node: plan.RecursiveScan, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    return tree.select([tree.star()], exp.Table(this=_recursive(node.level)))


@lower_node.register
def _iterate(node: plan.Iterate, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    """A query with a WITH RECURSIVE of its own."""
    engine = lowering.engine
    _check_recurses("WITH RECURSIVE", node, lowering)
    types = enumerate(node.schema.types)
    typed = numbered(tree.cast(tree.input_column(i), engine.type_(t)) for i, t in types)
    start, step = (tree.select(typed, tree.subquery(query, "i")) for query in inputs)
    columns = [exp.to_identifier(f"c{i}") for i in range(len(node.schema))]
    cte = exp.CTE(
        this=exp.Union(this=start, expression=step, distinct=node.is_distinct),
        alias=exp.TableAlias(this=_recursive(node.level), columns=columns),
    )
    made = tree.select([tree.star()], exp.Table(this=_recursive(node.level)))
    made.set("with_", exp.With(expressions=[cte], recursive=True))
    return made


def _check_recurses(what: str, node: plan.RelationalNode, lowering: Lowering) -> None:
    if not lowering.engine.recurses:
        hint = "SET 'execution.batch.engine' = 'duckdb', or run it as a stream"
        raise refuse(lowering.engine.title, what, hint=hint, span=node.span)


def _recursive(level: int) -> exp.Identifier:
    """The name of a recursive query. One within another has another level, or does not read the other."""
    return exp.to_identifier(f"recursive_{level}")


@lower_node.register
def _values(node: plan.Values, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    types, width = node.schema.types, range(len(node.schema))
    rows = [
        exp.Tuple(
            expressions=[lowering.engine.literal(Literal(v, t)) for v, t in zip(row, types, strict=True)]
        )
        for row in node.rows or [(None,) * len(types)]
    ]
    names = exp.TableAlias(this=exp.to_identifier("v"), columns=[exp.to_identifier(f"c{i}") for i in width])
    made = tree.select([tree.star()], exp.Values(expressions=rows, alias=names))
    return made if node.rows else tree.select_all(made, where=tree.boolean(False))


@lower_node.register
def _rank(node: plan.Rank, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    width = len(node.input.schema)
    partition = [tree.input_column(k) for k in node.partition_keys]
    number = tree.over(tree.call("row_number"), partition, ordered(node.order, "i"))
    numbered = tree.select([tree.star(), tree.alias(number, f"c{width}")], tree.subquery(inputs[0], "i"))
    columns = [tree.input_column(i) for i in range(width + node.outputs_rank)]
    first, last = tree.number(node.rank_start), tree.number(node.rank_end)
    kept = tree.is_between(tree.input_column(width), first, last)
    return tree.select(columns, tree.subquery(numbered, "i"), where=kept)


@lower_node.register
def _sort(node: plan.Sort, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    made = tree.select_all(inputs[0])
    if node.order:
        made.set("order", exp.Order(expressions=ordered(node.order, "i")))
    if node.fetch >= 0:
        made.set("limit", exp.Limit(expression=tree.number(node.fetch)))
    if node.offset:
        made.set("offset", exp.Offset(expression=tree.number(node.offset)))
    return made


@lower_node.register
def _watermark(node: plan.Watermark, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    """The rows, or an error where the row time is NULL, as in a stream."""
    field = node.input.schema.fields[node.column]
    if not field.type.nullable:
        return inputs[0]
    fail = lowering.engine.failure(f'rowtime "{field.name}" is null', BOOLEAN)
    is_null = tree.is_null(tree.input_column(node.column))
    return tree.select_all(inputs[0], where=tree.case([(is_null, fail)], tree.boolean(True)))


@lower_node.register
def _window(node: plan.Window, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    width = len(node.input.schema)
    columns = [
        tree.alias(lower_over_call(node, call, lowering.engine), f"c{width + i}")
        for i, call in enumerate(node.calls)
    ]
    return tree.select([tree.star(), *columns], tree.subquery(inputs[0], "i"))


@lower_node.register
def _window_tvf(node: plan.WindowTvf, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    engine = lowering.engine
    if not node.window.is_event_time:
        hint = "use a column with a watermark"
        raise refuse(engine.title, "a window of processing time", hint=hint, span=node.span)
    return lower_window_tvf(node, inputs[0], engine)


@lower_node.register
def _mutual_iterate(node: plan.MutualIterate, lowering: Lowering, inputs: list[exp.Expr]) -> exp.Expr:
    _check_recurses("WITH MUTUALLY RECURSIVE", node, lowering)
    return lower_mutual_iterate(node, lowering.engine, inputs, [_recursive(level) for level in node.levels])
