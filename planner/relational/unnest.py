"""The elements of a collection as rows, beside the row that holds it (Flink: a Correlate over an Uncollect)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlstream.planner.physical.description import describe, describe_columns
from sqlstream.planner.physical.node import Columns, PhysicalNode, Traits
from sqlstream.planner.physical.planning import Planning, over
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.planner import Inputs
from sqlstream.schema import Field, Schema
from sqlstream.specs.calc import UnnestSpec
from sqlstream.types import INT, LogicalType, TypeRoot

ORDINALITY = "ORDINALITY"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Unnest(base.ChosenColumnsNode):
    """A row per element of the ARRAY or MULTISET in column `collection`: the `columns` of the input, the element, then its
    number from 1 if `has_ordinality`. The fields of a ROW are columns of their own. `is_outer`: a row without elements occurs
    once, with NULLs."""

    collection: int
    is_outer: bool
    has_ordinality: bool

    @staticmethod
    def over(
        input: base.RelationalNode,
        collection: int,
        columns: tuple[int, ...],
        names: tuple[str, ...],
        is_outer: bool,
        has_ordinality: bool,
    ) -> Unnest:
        """`names` are those of the elements' columns."""
        types = element_types(input.schema.types[collection])
        if has_ordinality:
            types = (*types, INT.not_null())
        if is_outer:
            types = tuple(t.with_nullable(True) for t in types)
        made = tuple(Field(n, t) for n, t in zip(names, types, strict=True))
        return Unnest(
            input=input,
            collection=collection,
            columns=columns,
            is_outer=is_outer,
            has_ordinality=has_ordinality,
            schema=Schema(input.schema.select(columns).fields + made),
            span=input.span,
        )

    def describe(self) -> str:
        return base.join_parts(
            f"unnest=[${self.collection}]",
            f"kind=[{'LEFT' if self.is_outer else 'INNER'}]",
            f"columns=[{base.columns_text(self.columns)}]",
            "ordinality=[true]" if self.has_ordinality else "",
        )

    def read_columns(self) -> Columns:
        return frozenset({self.collection})

    def with_read_columns(self, places: Mapping[int, int]) -> dict[str, object]:
        return {"collection": places[self.collection]}


def element_types(collection: LogicalType) -> tuple[LogicalType, ...]:
    """The types of the columns that an element makes: those of its fields if it is a ROW."""
    element = collection.element
    assert element is not None
    if element.root is not TypeRoot.ROW:
        return (element,)
    return tuple(f.type.with_nullable(f.type.nullable or element.nullable) for f in element.fields)


# UNNEST: the elements of a collection as rows, in the chain of the input.


def plan_unnest(planning: Planning, inputs: Inputs, node: Unnest) -> PhysicalNode:
    """Rows keep their kinds, so the operator consumes whatever its input is."""
    source = inputs[0]
    return planning.node(
        "Unnest",
        UnnestSpec(node.collection, node.columns, node.is_outer, node.has_ordinality),
        over(source),
        node.schema,
        _unnested_traits(source.traits, node),
        describe(
            "Unnest",
            unnest=source.schema.fields[node.collection].name,
            joinType=f"[{'LeftOuterJoin' if node.is_outer else 'InnerJoin'}]",
            columns=describe_columns(node.columns, source.schema),
            ordinality="true" if node.has_ordinality else "",
        ),
        node.span,
    )


def _unnested_traits(below: Traits, node: Unnest) -> Traits:
    """What is known of the columns that pass. A row is one of several, told apart by their number alone, if they have one; an
    update may change how many there are, so that no key holds for updated rows."""
    moved = below.projected(node.places)
    has_keys = below.is_insert_only and node.has_ordinality and not node.is_outer
    number = frozenset({len(node.schema) - 1})
    return dataclasses.replace(
        moved,
        keys=frozenset(key | number for key in moved.keys) if has_keys else frozenset(),
        moving_keys=frozenset(),
        is_single_row_per_window=False,
        row_watermark_column=-1,
    )
