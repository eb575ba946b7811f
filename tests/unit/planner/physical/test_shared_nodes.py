"""The nodes that several nodes read."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.expressions import Call, InputRef, Literal
from sqlstream.planner.relational.nodes import Filter, Project, RelationalNode, Union, Values
from sqlstream.planner.relational.planner import shared_nodes
from sqlstream.schema import Schema

SCHEMA = Schema.of(("a", sql.INT))
COLUMN = InputRef(0, sql.INT)
ROW = Values(rows=((1,),), schema=SCHEMA)


def above(node: RelationalNode, least: int) -> Filter:
    condition = Call(">", (COLUMN, Literal(least, sql.INT)), sql.BOOLEAN)
    return Filter(input=node, condition=condition, schema=SCHEMA)


def both(*branches: RelationalNode) -> Union:
    return Union(branches=branches, schema=SCHEMA)


def test_a_node_that_two_nodes_read_is_shared_and_what_it_reads_itself_is_not() -> None:
    doubled = Project(input=ROW, expressions=(Call("+", (COLUMN, COLUMN), sql.INT),), schema=SCHEMA)
    assert shared_nodes((both(above(doubled, 1), above(doubled, 2)),)) == {doubled}


def test_equal_nodes_are_one_node() -> None:
    assert shared_nodes((both(above(ROW, 1), above(ROW, 1)),)) == {above(ROW, 1)}
    assert shared_nodes((above(ROW, 1), above(ROW, 2))) == {ROW}
    assert shared_nodes((above(ROW, 1),)) == set()
