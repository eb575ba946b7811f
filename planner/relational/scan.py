"""Reading a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import msgspec

from sqlstream.catalog import CatalogTable
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import Span, UserError, choose_one_of
from sqlstream.expressions import Expression, conjunction, inputs_of, references, remap
from sqlstream.graph.stream_graph import FORWARD
from sqlstream.planner.physical.calc import plan_calc
from sqlstream.planner.physical.description import describe, describe_columns, describe_expression
from sqlstream.planner.physical.node import Columns, PhysicalNode, Traits
from sqlstream.planner.physical.planning import Planning, hash_or_singleton, over
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.planner import Inputs
from sqlstream.schema import Field, Schema
from sqlstream.specs import EventSourceSpec, SourceSpec
from sqlstream.specs.changelog_functions import ChangelogNormalizeSpec
from sqlstream.specs.source import SourceWatermark
from sqlstream.specs.watermark import ROW_WATERMARK_COLUMN, EmitStrategy
from sqlstream.spi.changelog_options import has_tombstones, reads_events_by_key
from sqlstream.spi.connector import ConnectorDescriptor, said_options
from sqlstream.spi.format import UNKNOWN_VALUES, VALUE_PREFIX
from sqlstream.types import BIGINT, STRING


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TableScan(base.RelationalNode):
    """Physical `columns` then `metadata` columns of a table; the schema has exactly these, and the row time if `watermark`
    adds it. The binder puts computed columns and the watermark of the table into nodes above it. `options` are the table's
    options with hints applied.

    `filters`, `limit` and `watermark` are filled by push-down rules (see SourceSpec). `mode`: the changelog that the rows of
    the table make; one that is not INSERT_ONLY is read by one subtask, in the order of its changes. Only filters by its
    primary key are pushed down: they drop all changes of a row or none. `keeps_events`: its changes are read as they came, as
    versions of rows, and not made a changelog of whole rows. `keeps_changes`: all changes of a key count, not only the last
    one of a batch. `leaves_out_values`: its changes are events by key, and one that updates a row may lack values.
    `varying_metadata`: metadata keys that a row and its retraction have different values of. `waits_for`, `turn`: see SourceSpec.
    """

    table: CatalogTable
    options: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    metadata: tuple[Field, ...] = ()
    filters: tuple[Expression, ...] = ()
    limit: int = -1
    is_bounded: bool = True
    watermark: SourceWatermark | None = None
    mode: ChangelogMode = ChangelogMode.INSERT_ONLY
    keeps_events: bool = False
    keeps_changes: bool = False
    leaves_out_values: bool = False
    varying_metadata: frozenset[str] = frozenset()
    waits_for: str = ""
    turn: int = -1

    @property
    def marks_unknown(self) -> bool:
        """Whether a column behind all others names the values that a change lacks."""
        return self.leaves_out_values and not self.keeps_events

    def describe(self) -> str:
        path = self.table.path
        return base.join_parts(
            f"table=['{path.name}']" if self.table.is_anonymous else f"table=[{path}]",
            f"columns=[{', '.join(self.columns)}]",
            f"metadata=[{', '.join(f.name for f in self.metadata)}]" if self.metadata else "",
            f"filters=[{', '.join(map(str, self.filters))}]" if self.filters else "",
            f"limit=[{self.limit}]" if self.limit >= 0 else "",
            f"watermark=[{self.watermark.expression}]" if self.watermark is not None else "",
            "" if self.mode.is_insert_only else f"changelog={self.mode}",
            "events" if self.keeps_events else "",
            "all changes" if self.keeps_changes else "",
        )

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        wanted = wanted | inputs_of(*self.filters) if self.filters else wanted
        wanted = wanted | self._columns_of_changes()
        kept = tuple(sorted(wanted)) or tuple(sorted(base.one_column(self.schema)))
        places = base.places_of(kept)
        count = len(self.columns)
        scan = dataclasses.replace(
            self,
            columns=tuple(self.columns[i] for i in kept if i < count),
            metadata=tuple(self.metadata[i - count] for i in kept if i >= count),
            schema=self.schema.select(kept),
            filters=tuple(remap(f, places) for f in self.filters),
        )
        return scan, places

    def _columns_of_changes(self) -> Columns:
        """The columns by which changes are applied, whether the query reads them or not."""
        if self.mode.is_insert_only:
            return frozenset()
        if has_tombstones(dict(self.options)):
            return frozenset(range(len(self.columns)))
        keys = self.table.primary_key
        return frozenset(i for i, name in enumerate(self.columns) if name in keys)

    def scalar_expressions(self) -> tuple[Expression, ...]:
        return self.filters


# Sources: table scans.


def plan_scan(planning: Planning, inputs: Inputs, node: TableScan) -> PhysicalNode:
    """A connector's source. UserError SS3010 when the connector cannot be read."""
    options = dict(node.options)
    descriptor = find_connector(planning.connectors, node.table, options, node.span)
    spec = source_spec(node, descriptor)
    holds_changes = not node.mode.is_insert_only
    # Without operations the rows themselves are the changes, and one with nothing but its key deletes.
    has_kinds = holds_changes and not has_tombstones(options)
    keys = _keys(node) if has_kinds else frozenset()
    schema, traits = node.schema, Traits(not has_kinds, node.is_bounded, keys)
    if has_kinds and node.mode is ChangelogMode.UPSERT:
        traits = dataclasses.replace(traits, is_by_key=True)
    if node.marks_unknown:
        schema = Schema((*schema.fields, Field(UNKNOWN_VALUES, STRING)))
    if node.watermark is not None and node.watermark.emit_strategy is EmitStrategy.ON_EVENT:
        traits = dataclasses.replace(traits, row_watermark_column=len(schema))
        schema = Schema((*schema.fields, Field(ROW_WATERMARK_COLUMN, BIGINT)))
    condition = conjunction(spec.filters)
    description = describe(
        "TableSourceScan",
        table=f"[{node.table.path.name}]",
        connector=descriptor.identifier,
        fields=f"[{', '.join(node.schema.names)}]",
        filters="" if condition is None else f"[{describe_expression(condition, node.schema)}]",
        limit="" if node.limit < 0 else str(node.limit),
        watermark=""
        if node.watermark is None
        else f"[{describe_expression(node.watermark.expression, node.schema)}]",
        bounded=str(node.is_bounded).lower(),
        changelog=str(node.mode) if holds_changes else "",
        historyTurn="" if node.turn < 0 else str(node.turn),
        **said_options(descriptor.reading.said, options),
    )
    parallelism = parallelism_option(descriptor, options, "scan.parallelism", node.span)
    source = planning.node(
        f"Source: {node.table.path.name}",
        spec,
        (),
        schema,
        traits,
        description,
        node.span,
        # Changes of a row are applied in the order in which they stand.
        parallelism=1 if holds_changes and not descriptor.reading.keeps_keys_together else parallelism,
    )
    if node.keeps_events:
        return source
    if normalizes(planning, node):
        return plan_changelog_normalize(planning, source, node)
    return filtered_by_key(planning, source, node) if holds_changes else source


def _keys(node: TableScan) -> frozenset[Columns]:
    """The primary key of the rows that the changes describe, if all of it is read."""
    names = node.schema.names
    primary_key = node.table.primary_key
    if not primary_key or not set(primary_key) <= set(names):
        return frozenset()
    return frozenset({frozenset(names.index(name) for name in primary_key)})


def source_spec(node: TableScan, descriptor: ConnectorDescriptor) -> SourceSpec:
    """What a scan reads. UserError SS3010 when the connector cannot be read."""
    if not descriptor.is_source:
        raise UserError(
            "SS3010",
            f'table "{node.table.path.name}" cannot be read:'
            f' connector "{descriptor.identifier}" is a sink only',
            span=node.span,
            hint="read from a table whose connector is a source",
        )
    for field in node.metadata:
        if field.name.removeprefix(VALUE_PREFIX) in node.varying_metadata:
            raise UserError(
                "SS3498",
                f'metadata "{field.name}" of table "{node.table.path.name}" is that of each event, so a row and the event that'
                " retracts it differ",
                span=node.span,
            )
    return scan_spec(node, descriptor)


def scan_spec(node: TableScan, descriptor: ConnectorDescriptor) -> SourceSpec:
    """What a scan names of its table, whether it is read as a stream or by key."""
    spec = SourceSpec(
        table=node.table.path.name,
        connector=descriptor.identifier,
        options=dict(node.options),
        schema=node.table.physical_schema(),
        columns=node.columns,
        metadata=node.metadata,
        filters=node.filters if node.mode.is_insert_only else (),
        limit=node.limit,
        is_bounded=node.is_bounded,
        watermark=node.watermark,
        change_key=() if node.mode.is_insert_only else node.table.primary_key,
        are_versions=node.keeps_events,
        waits_for=node.waits_for,
        turn=node.turn,
    )
    if not reads_events_by_key(dict(node.options), node.mode):
        return spec
    fields = msgspec.structs.asdict(spec)
    return EventSourceSpec(**fields, keys=node.table.primary_key, marks_unknown=node.marks_unknown)


# A table's connector, as planning reads it: descriptor and parallelism.


def find_connector(
    connectors: Mapping[str, ConnectorDescriptor],
    table: CatalogTable,
    options: dict[str, str],
    span: Span | None,
) -> ConnectorDescriptor:
    """The descriptor of the table's connector. UserError SS4004 when there is no connector of that name."""
    name = options.get("connector", "")
    descriptor = connectors.get(name)
    if descriptor is None:
        raise UserError(
            "SS4004",
            f'table "{table.path.name}" has the unknown connector "{name}"',
            span=span,
            hint=choose_one_of(name, sorted(connectors)),
        )
    return descriptor


def parallelism_option(
    descriptor: ConnectorDescriptor, options: dict[str, str], key: str, span: Span | None
) -> int:
    """The parallelism in the table's options, 0 without one. UserError SS4002 when it is no positive number."""
    if key not in options or key not in {o.key for o in descriptor.options}:
        return 0
    text = options[key].strip()
    if not text.isdecimal() or int(text) < 1:
        raise UserError(
            "SS4002", f'option "{key}" takes a positive number, not "{text}"', span=span, hint="write '2'"
        )
    return int(text)


EVENTS_DUPLICATE = "table.exec.source.cdc-events-duplicate"


def normalizes(planning: Planning, node: TableScan) -> bool:
    """Whether the rows of a scan must be made a changelog. UserError SS3495 for events that may come twice, of a table without a
    key."""
    if node.mode is ChangelogMode.UPSERT:
        return True
    return bool(planning.setting(EVENTS_DUPLICATE)) and changes_are_doubled(node)


def changes_are_doubled(node: TableScan) -> bool:
    """Whether the last change of a key counts, where events may come twice. UserError SS3495 for a table without a key."""
    if node.mode is not ChangelogMode.RETRACT:
        return False
    if not node.table.primary_key:
        raise UserError(
            "SS3495",
            f'"{EVENTS_DUPLICATE}" is set, and table "{node.table.path.name}" has no primary key to know an event again by',
            span=node.span,
        )
    return True


def filtered_by_key(planning: Planning, source: PhysicalNode, node: TableScan) -> PhysicalNode:
    """The changes of the rows that the filters of the scan let through."""
    condition = conjunction(node.filters)
    if condition is None:
        return source
    return plan_calc(planning, source, references(source.schema.types), condition, source.schema, node.span)


def plan_changelog_normalize(planning: Planning, source: PhysicalNode, node: TableScan) -> PhysicalNode:
    """The last row of each primary key. Filters by the key come before it: they drop all changes of a row, or none."""
    source = filtered_by_key(planning, source, node)
    names = node.schema.names
    keys = tuple(names.index(name) for name in node.table.primary_key)
    values: tuple[int, ...] = ()
    if source.traits.is_insert_only:
        values = tuple(i for i, name in enumerate(node.columns) if name not in node.table.primary_key)
    marks = len(node.schema) if node.marks_unknown else -1
    return normalized(planning, source, keys, values, node.span, marks, keeps_changes=node.keeps_changes)


def normalized(
    planning: Planning,
    source: PhysicalNode,
    keys: tuple[int, ...],
    values: tuple[int, ...],
    span: Span | None,
    marks: int = -1,
    *,
    keeps_changes: bool = False,
    is_distributed: bool = False,
) -> PhysicalNode:
    """Changes by key as a changelog of whole rows; of rows without operations, those with nothing in `values` delete. `marks`:
    the last column, which names the values that a row lacks. `is_distributed`: rows are where a HASH by the keys brings them."""
    spec = ChangelogNormalizeSpec(keys, values, planning.state_ttl_ms, marks, keeps_changes)
    schema = source.schema if marks < 0 else Schema(source.schema.fields[:marks])
    return planning.node(
        "ChangelogNormalize",
        spec,
        over(source, FORWARD if is_distributed else hash_or_singleton(keys)),
        schema,
        Traits(
            is_insert_only=False,
            is_bounded=source.traits.is_bounded,
            keys=frozenset({frozenset(keys)}),
            times=source.traits.times,
        ),
        describe(
            "ChangelogNormalize",
            key=describe_columns(keys, source.schema),
            fills="[values that an event lacks]" if marks >= 0 else "",
            changes="all" if keeps_changes else "",
        ),
        span,
    )
