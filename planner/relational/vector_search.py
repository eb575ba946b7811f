"""The rows of a table whose vectors are nearest to one of each row before it (Flink: VectorSearchTableFunction)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlstream.errors import ErrorsAt, Span, UserError
from sqlstream.planner.physical.description import describe, describe_columns, describe_expression
from sqlstream.planner.physical.node import Columns, PhysicalNode
from sqlstream.planner.physical.planning import Planning, over
from sqlstream.planner.physical.refusals import require_insert_only
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.lookup_join import dimension_of
from sqlstream.planner.relational.planner import Inputs
from sqlstream.planner.relational.scan import find_connector, scan_spec
from sqlstream.specs import JoinKind, VectorSearchSpec
from sqlstream.spi.lookup import CacheKind, lookup_options_given

VECTOR_SEARCH = "VECTOR_SEARCH"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class VectorSearch(base.ChosenColumnsNode):
    """The `columns` of the input with those of `table`, and a score: for each row the `top_k` rows of the table whose column
    `vector` is nearest to the column `query` of the input, the nearest first.

    `table` is no input: it is searched whole, so that no condition on the result goes below. `is_outer`: a row without any
    occurs once, with NULLs. `reload_ms` as of its spec."""

    query: int
    table: base.RelationalNode
    vector: int
    top_k: int
    metric: str
    is_outer: bool
    reload_ms: int = 0

    def describe(self) -> str:
        return base.join_parts(
            f"query=[${self.query}]",
            f"vector=[{self.table.schema.names[self.vector]}]",
            f"topK=[{self.top_k}]",
            f"metric=[{self.metric}]",
            f"kind=[{'LEFT' if self.is_outer else 'INNER'}]",
            f"columns=[{base.columns_text(self.columns)}]",
        )

    def read_columns(self) -> Columns:
        return frozenset({self.query})

    def with_read_columns(self, places: Mapping[int, int]) -> dict[str, object]:
        return {"query": places[self.query]}


def plan_vector_search(planning: Planning, inputs: Inputs, node: VectorSearch) -> PhysicalNode:
    """Searched where the rows are. UserError SS3011 for rows that change, SS3031 for more than a table,
    SS3528 for one that cannot be read whole, SS3610 for a cache by key."""
    source = inputs[0]
    hint = "search before the rows are aggregated or joined"
    require_insert_only(source, VECTOR_SEARCH, node.span, hint)
    dimension = dimension_of(node.table, node.span, VECTOR_SEARCH)
    scan = dimension.scan
    name = scan.table.path.name
    if not scan.is_bounded or not scan.mode.is_insert_only:
        why = "it never ends" if not scan.is_bounded else "its rows are changes"
        hint = "search a table of files, or bound the table (DESCRIBE CONNECTOR shows how)"
        raise UserError("SS3528", f'table "{name}" cannot be read whole: {why}', span=scan.span, hint=hint)
    _check_cache(dict(scan.options), node, scan.span)
    descriptor = find_connector(planning.connectors, scan.table, dict(scan.options), scan.span)
    spec = VectorSearchSpec(
        kind=JoinKind.LEFT if node.is_outer else JoinKind.INNER,
        left_keys=(),
        source_keys=(),
        right_keys=(),
        source=scan_spec(scan, descriptor),
        projections=dimension.projections,
        right_schema=node.table.schema,
        source_condition=dimension.condition,
        columns=node.columns,
        query=node.query,
        vector=node.vector,
        top_k=node.top_k,
        metric=node.metric,
        reload_ms=node.reload_ms,
    )
    where = "" if spec.source_condition is None else describe_expression(spec.source_condition, scan.schema)
    return planning.node(
        "VectorSearchTableFunction",
        spec,
        over(source),
        node.schema,
        dataclasses.replace(
            source.traits.projected(node.places),
            row_watermark_column=-1,
            keys=frozenset(),
            moving_keys=frozenset(),
            is_single_row_per_window=False,
        ),
        describe(
            "VectorSearchTableFunction",
            table=f"[{spec.source.table}]",
            connector=spec.source.connector,
            joinType=f"[{spec.kind.value}]",
            columnToSearch=f"[{node.table.schema.names[node.vector]}]",
            columnToQuery=describe_columns((node.query,), source.schema),
            topK=f"[{node.top_k}]",
            metric=f"[{node.metric}]",
            where=f"[{where}]",
            reload=f"[{node.reload_ms} ms]" if node.reload_ms else "",
        ),
        node.span,
    )


def _check_cache(options: dict[str, str], node: VectorSearch, span: Span | None) -> None:
    with ErrorsAt(span):
        lookup = lookup_options_given(options)
    if lookup is None:
        return
    if lookup.cache is CacheKind.PARTIAL:
        raise UserError(
            "SS3610", "a vector search has no keys, by which a PARTIAL cache holds rows", span=span
        )
    if node.reload_ms:
        raise UserError(
            "SS3610",
            "the table says when it is read again, and so does the call",
            span=node.span,
            hint="leave out 'lookup.cache' of the table, or 'reload' of the call",
        )
