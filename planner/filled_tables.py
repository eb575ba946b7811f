"""The queries of the INSERTs that fill tables, in the places of these tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlstream.catalog.objects import CatalogTable
from sqlstream.errors import UserError
from sqlstream.expressions import Call, InputRef, Literal, conjunction, references
from sqlstream.planner.relational import nodes as plan
from sqlstream.planner.relational.node import EQUAL, RelationalNode, rewrite
from sqlstream.schema import Field, Schema
from sqlstream.specs.join import JoinKind
from sqlstream.types import BOOLEAN, INT


class LastWritten(plan.Join):
    """The rows of a table that keeps one row of each primary key, without those whose key a later INSERT wrote."""


def over_queries(
    query: RelationalNode, filled: Mapping[CatalogTable, Sequence[Sequence[plan.Sink]]]
) -> RelationalNode:
    """The query with the tables that INSERTs fill replaced by the queries of these INSERTs, down to tables that nothing fills.

    A table has its INSERTs in steps: the rows of a step replace those of the steps before it that have their primary key."""

    def replaced(node: RelationalNode, above: frozenset[CatalogTable]) -> RelationalNode:
        def of_scan(each: RelationalNode) -> RelationalNode:
            if not isinstance(each, plan.TableScan) or each.table in above:
                return each
            steps = filled.get(each.table, ())
            below = above | {each.table}
            made = [[(sink, replaced(sink.input, below)) for sink in step] for step in steps]
            return _last_written(each, made) if len(made) > 1 else _all_written(each, made)

        return rewrite(node, of_scan)

    return replaced(query, frozenset())


def _all_written(scan: plan.TableScan, steps: list[list[tuple[plan.Sink, RelationalNode]]]) -> RelationalNode:
    made = tuple(_filling(scan, sink, query) for step in steps for sink, query in step)
    if len(made) > 1:
        return plan.Union(branches=made, schema=scan.schema, span=scan.span)
    return made[0] if made else scan


def _last_written(
    scan: plan.TableScan, steps: list[list[tuple[plan.Sink, RelationalNode]]]
) -> RelationalNode:
    """Each row with its primary key and the number of its step, and of those of one key the ones with the highest number."""
    key = scan.table.primary_key
    types = {column.name: column.type.without_time_attribute() for column in scan.table.columns}
    width = len(scan.schema)
    number = INT.not_null()
    more = (*(Field(name, types[name]) for name in key), Field("$step", number))
    schema = Schema((*scan.schema.fields, *more))
    branches = []
    for place, step in enumerate(steps):
        for sink, query in step:
            columns = (*_filling(scan, sink, query).expressions, *_of_names(sink, query, key))
            columns += (Literal(place, number),)
            branches.append(plan.Project(input=query, expressions=columns, schema=schema, span=scan.span))
    rows = plan.Union(branches=tuple(branches), schema=schema, span=scan.span)
    right = len(schema)
    same = [
        Call(EQUAL, (InputRef(c, schema.types[c]), InputRef(right + c, schema.types[c])), BOOLEAN.not_null())
        for c in range(width, right - 1)
    ]
    is_later = Call("<", (InputRef(right - 1, number), InputRef(2 * right - 1, number)), BOOLEAN.not_null())
    last = LastWritten(
        left=rows, right=rows, kind=JoinKind.ANTI, condition=conjunction([*same, is_later]), schema=schema
    )
    columns = references(scan.schema.types)
    return plan.Project(input=last, expressions=columns, schema=scan.schema, span=scan.span)


def _filling(scan: plan.TableScan, sink: plan.Sink, query: RelationalNode) -> plan.Project:
    """The columns of the scan from the query of the INSERT. UserError SS3481 for metadata, which the query does not have."""
    if scan.metadata:
        raise UserError(
            "SS3481",
            f'metadata column "{scan.metadata[0].name}" of table "{scan.table.path.name}" is in no query that fills it',
            span=scan.span,
        )
    columns = tuple(_of_names(sink, query, scan.columns))
    return plan.Project(input=query, expressions=columns, schema=scan.schema, span=scan.span)


def _of_names(sink: plan.Sink, query: RelationalNode, names: Iterable[str]) -> Iterator[InputRef]:
    places = list(sink.schema.names)
    for name in names:
        place = places.index(name)
        yield InputRef(place, query.schema.types[place])
