"""The first rows of a history as a query of a batch engine."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import Call, InputRef, SortKey, references
from sqlstream.planner.relational.calc import Filter, Project
from sqlstream.planner.relational.node import RelationalNode
from sqlstream.planner.relational.rank import Rank
from sqlstream.planner.relational.sort import Sort
from sqlstream.planner.relational.window import Window
from sqlstream.schema import Field, Schema
from sqlstream.specs.over import OverCall
from sqlstream.types import BOOLEAN


def first_rows(node: Rank) -> RelationalNode:
    """The rows of the history that have the first ranks, in one order. Which of the rows that are equal in ORDER BY are first is
    the same each time, too."""
    columns = range(len(node.input.schema))
    # What is the same in all rows of a partition decides nothing, and takes a fifth of the time.
    ordered = {key.column for key in node.order} | set(node.partition_keys)
    rest = tuple(SortKey(c, is_descending=False, is_nulls_first=True) for c in columns if c not in ordered)
    rows = _candidates(node) if node.rank_end == 1 else node.input
    order = (*node.order, *rest)
    ranked = dataclasses.replace(
        node, input=rows, rank_start=1, order=order, outputs_rank=False, schema=rows.schema
    )
    schema = node.input.schema
    own = Project(input=ranked, expressions=references(schema.types, columns), schema=schema, span=node.span)
    keys = tuple(SortKey(k, is_descending=False, is_nulls_first=True) for k in node.partition_keys)
    sorted_by: dict[int, SortKey] = {}
    for key in (*keys, *order):
        sorted_by.setdefault(key.column, key)
    return Sort(input=own, order=tuple(sorted_by.values()), schema=schema, span=node.span)


def _candidates(node: Rank) -> RelationalNode:
    """The rows that are first in the first column of ORDER BY, with one more column. An engine finds them in a third of the time
    that it takes to rank all rows by all columns."""
    first, width = node.order[0], len(node.input.schema)
    t = node.input.schema.types[first.column].without_time_attribute().with_nullable(True)
    call = OverCall("MAX" if first.is_descending else "MIN", (first.column,), t)
    fields = (*node.input.schema.fields, Field("first", t))
    best = Window(
        input=node.input,
        partition_keys=node.partition_keys,
        order=(),
        calls=(call,),
        schema=Schema(fields),
        span=node.span,
    )
    value = InputRef(first.column, t)
    is_first = Call("IS NOT DISTINCT FROM", (value, InputRef(width, t)), BOOLEAN.not_null())
    if first.is_nulls_first:
        is_null = Call("IS NULL", (value,), BOOLEAN.not_null())
        is_first = Call("OR", (is_first, is_null), BOOLEAN.not_null())
    return Filter(input=best, condition=is_first, schema=best.schema, span=node.span)
