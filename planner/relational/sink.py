"""Writing to a table."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import msgspec

from sqlstream import specs
from sqlstream.catalog import CatalogTable, ColumnKind
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.expressions import LiteralValue
from sqlstream.graph.stream_graph import FORWARD, Exchange, ExchangeKind
from sqlstream.planner.physical.description import describe, describe_columns
from sqlstream.planner.physical.node import Columns, PhysicalNode, Traits
from sqlstream.planner.physical.planning import Planning, hash_or_singleton, over
from sqlstream.planner.physical.refusals import producer
from sqlstream.planner.relational.node import Pruning, SameColumnsNode, Trimmed, places_of
from sqlstream.planner.relational.planner import Inputs
from sqlstream.planner.relational.scan import find_connector, parallelism_option
from sqlstream.planner.relational.sort import plan_final_rows
from sqlstream.schema import Field, Schema
from sqlstream.specs.rank import Ties
from sqlstream.specs.sink import COLLECT, OnConflict, SinkAction
from sqlstream.spi.changelog_options import COMPACTED, ChangelogOptions, sink_mode_of, writes_events
from sqlstream.spi.connector import ConnectorDescriptor, said_options


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Sink(SameColumnsNode):
    """Write to a table; the input's columns are the table's physical columns in order, cast to their types, then `metadata`.

    The table of a SELECT is that of `collect_table` (connector "collect"). `format_mode`: the widest changelog that the table's
    format takes. `metadata` is named by metadata keys. `on_conflict` says which of several rows with one primary key stays.
    `action` is what it does with rows that are there already: of UPDATE and DELETE the last column of the input, a BOOLEAN, says
    which rows they change. `partition` has the columns that an INSERT OVERWRITE gives values.
    """

    is_reusable: ClassVar[bool] = False

    table: CatalogTable
    options: tuple[tuple[str, str], ...]
    format_mode: ChangelogMode = ChangelogMode.INSERT_ONLY
    on_conflict: OnConflict | None = None
    action: SinkAction | None = None
    partition: tuple[tuple[str, LiteralValue], ...] = ()
    metadata: tuple[Field, ...] = ()

    def describe(self) -> str:
        action = "" if self.action is None else f", action=[{self.action.value}]"
        return f"table=[{self.table.path}], columns=[{', '.join(self.schema.names)}]{action}"

    def trim(self, pruning: Pruning, wanted: Columns, time: bool) -> Trimmed:
        every = tuple(range(len(self.input.schema)))
        trimmed = dataclasses.replace(self, input=pruning.exactly(self.input, frozenset(every), time))
        return trimmed, places_of(every)


# Sinks: the row kinds that a table takes, matched with those of the query.


def plan_sink(planning: Planning, inputs: Inputs, node: Sink) -> PhysicalNode:
    """The operator that writes. UserError SS3010 for a table that cannot be written, and SS3015 for an append-only table under
    an updating query. SS3016 without ON CONFLICT, where an upsert's key is not the table's primary key."""
    source = inputs[0]
    options = dict(node.options)
    descriptor = find_connector(planning.connectors, node.table, options, node.span)
    spec = sink_spec(node, descriptor)
    name = spec.table
    if isinstance(spec, specs.ChangingSinkSpec):
        source = changing_rows(planning, source, node, spec)
    if node.on_conflict is OnConflict.ERROR and frozenset(spec.primary_key) not in source.traits.keys:
        source = _checked(planning, source, node, spec)
    if isinstance(spec, specs.ChangingSinkSpec) and spec.action.changes_rows:
        pass
    elif not source.traits.is_insert_only:
        _check_updates(planning, source, node, descriptor, spec)
        if _wants_materializer(planning, source, node, spec, descriptor):
            source = _materialized(planning, source, node, spec)
    elif node.on_conflict is OnConflict.NOTHING:
        source = _first_rows(planning, source, node, spec)
    parallelism = parallelism_option(descriptor, options, "sink.parallelism", node.span)
    parallelism = 1 if descriptor.identifier == COLLECT else parallelism
    return planning.node(
        f"Sink: {name}",
        spec,
        over(source, _exchange(source, node, spec, parallelism)),
        source.schema,
        dataclasses.replace(source.traits, row_watermark_column=-1),
        describe(
            "Sink",
            table=f"[{name}]",
            connector=spec.connector,
            fields=f"[{', '.join(node.schema.names[: len(spec.fields)])}]",
            **said_options(descriptor.writing.said, options),
        ),
        node.span,
        parallelism=parallelism,
        is_reusable=False,
    )


def sink_spec(node: Sink, descriptor: ConnectorDescriptor) -> specs.SinkSpec:
    """What a sink writes. UserError SS3010 when the connector cannot be written."""
    name = node.table.path.name
    if not descriptor.is_sink:
        raise UserError(
            "SS3010",
            f'table "{name}" cannot be written: connector "{descriptor.identifier}" is a source only',
            span=node.span,
            hint="INSERT INTO a table whose connector is a sink",
        )
    schema = Schema(_sink_fields(node))
    spec = specs.SinkSpec(
        table=name,
        connector=descriptor.identifier,
        options=dict(node.options),
        schema=schema,
        primary_key=tuple(schema.index_of(k) for k in node.table.primary_key),
        partition_keys=tuple(schema.index_of(k) for k in node.table.partition_keys),
    )
    if node.metadata:
        return specs.MetadataSinkSpec(**msgspec.structs.asdict(spec), metadata=node.metadata)
    if node.action is None:
        return spec
    partition = tuple((schema.index_of(column), value) for column, value in node.partition)
    fields = msgspec.structs.asdict(spec)
    return specs.ChangingSinkSpec(**fields, action=node.action, partition=partition)


def _sink_fields(node: Sink) -> tuple[Field, ...]:
    fields = tuple(Field(c.name, c.type) for c in node.table.columns if c.kind is ColumnKind.PHYSICAL)
    marks = node.action is not None and node.action.changes_rows
    assert len(fields) + len(node.metadata) + marks == len(node.input.schema), (
        "the binder casts to the table's writable columns"
    )
    return fields


def _check_updates(
    planning: Planning,
    source: PhysicalNode,
    node: Sink,
    descriptor: ConnectorDescriptor,
    spec: specs.SinkSpec,
) -> None:
    name = node.table.path.name
    replaces = isinstance(spec, specs.ChangingSinkSpec) and descriptor.place.has_format
    replaces = replaces and ChangelogOptions.of(spec.options).mode != COMPACTED
    if descriptor.writing.mode.is_insert_only and (node.format_mode.is_insert_only or replaces):
        cause = producer(source)
        hint = "aggregate by window, whose result is append-only, or write where updates can go"
        if replaces and not node.format_mode.is_insert_only:
            hint = (
                "INSERT INTO, without OVERWRITE, writes updates to this table; or compute the query in batch, where its result"
                " is final: SET 'execution.runtime-mode' = 'BATCH'"
            )
        raise UserError(
            "SS3015",
            f'table sink "{name}" doesn\'t support consuming update and delete changes,'
            f" which {cause.name} produces",
            span=cause.span or node.span,
            hint=hint,
        )
    mode = sink_mode_of(descriptor, spec.options)
    if mode is not ChangelogMode.UPSERT or descriptor.writing.takes_upserts:
        return
    if not spec.primary_key:
        raise UserError(
            "SS3016",
            f'table sink "{name}" takes upserts, but has no primary key to replace rows by',
            span=node.span,
            hint="declare PRIMARY KEY (…) NOT ENFORCED in the table",
        )
    wants_same_key = node.on_conflict is None and bool(
        planning.setting("table.exec.sink.require-on-conflict")
    )
    if wants_same_key and frozenset(spec.primary_key) not in source.traits.unique_keys:
        raise UserError(
            "SS3016",
            f"the query's upsert key {_key_names(source, spec)} differs from the primary key"
            f' ({", ".join(node.table.primary_key)}) of table "{name}": rows could overwrite each other',
            span=node.span,
            hint="group by the primary key, or write ON CONFLICT DO DEDUPLICATE | NOTHING | ERROR behind the query",
        )


def _wants_materializer(
    planning: Planning,
    source: PhysicalNode,
    node: Sink,
    spec: specs.SinkSpec,
    descriptor: ConnectorDescriptor,
) -> bool:
    """Whether the sink cannot tell which of several rows with one primary key is to stay when one of them is retracted. So it is
    with events, which are read by the key in the order in which they stand."""
    mode = sink_mode_of(descriptor, spec.options)
    is_read_by_key = writes_events(descriptor, spec.options, node.format_mode) and bool(spec.primary_key)
    if not (mode is ChangelogMode.UPSERT or is_read_by_key) or descriptor.writing.takes_upserts:
        return False
    strategy = planning.setting("table.exec.sink.upsert-materialize")
    is_in_order = planning.setting("pipeline.max-parallelism") == 1
    if strategy == "AUTO" and node.on_conflict is None and is_in_order:
        # One subtask each, for ever: a row comes behind the deletion of the one that it replaces.
        return frozenset(spec.primary_key) not in source.traits.unique_keys
    is_wanted = node.on_conflict is not None or strategy == "AUTO"
    return strategy == "FORCE" or (is_wanted and frozenset(spec.primary_key) not in source.traits.keys)


def _materialized(planning: Planning, source: PhysicalNode, node: Sink, spec: specs.SinkSpec) -> PhysicalNode:
    """The row of each primary key that was added last, of those that are there, or the one that has been there longest (Flink:
    SinkUpsertMaterializer)."""
    materializer = specs.RankSpec(
        partition_keys=spec.primary_key,
        order=(),
        rank_start=1,
        rank_end=1,
        outputs_rank=False,
        is_retracting=True,
        state_ttl_ms=planning.state_ttl_ms,
        ties=Ties.LONGEST if node.on_conflict is OnConflict.NOTHING else Ties.LAST,
    )
    return planning.node(
        "SinkMaterializer",
        materializer,
        over(source, hash_or_singleton(spec.primary_key)),
        source.schema,
        Traits(
            is_insert_only=False,
            is_bounded=source.traits.is_bounded,
            keys=frozenset({frozenset(spec.primary_key)}),
        ),
        describe(
            "SinkMaterializer",
            primaryKey=describe_columns(spec.primary_key, spec.schema),
            keep=materializer.ties.value,
        ),
        node.span,
    )


def _checked(planning: Planning, source: PhysicalNode, node: Sink, spec: specs.SinkSpec) -> PhysicalNode:
    """The rows, of which no two may have the same primary key at a time."""
    check = specs.ConflictCheckSpec(spec.primary_key, node.table.path.name, planning.state_ttl_ms)
    return planning.node(
        "ConflictCheck",
        check,
        over(source, hash_or_singleton(spec.primary_key)),
        source.schema,
        source.traits.distributed(spec.primary_key),
        describe("ConflictCheck", primaryKey=describe_columns(spec.primary_key, spec.schema)),
        node.span,
    )


def _first_rows(planning: Planning, source: PhysicalNode, node: Sink, spec: specs.SinkSpec) -> PhysicalNode:
    """The first row of each primary key, of rows that are never retracted."""
    first = specs.DeduplicateSpec(
        keys=spec.primary_key, keep=specs.Keep.FIRST, time_column=-1, state_ttl_ms=planning.state_ttl_ms
    )
    keys = frozenset({frozenset(spec.primary_key)})
    return planning.node(
        "SinkDeduplicate",
        first,
        over(source, hash_or_singleton(spec.primary_key)),
        source.schema,
        Traits(is_insert_only=True, is_bounded=source.traits.is_bounded, keys=keys),
        describe("SinkDeduplicate", primaryKey=describe_columns(spec.primary_key, spec.schema), keep="FIRST"),
        node.span,
    )


def _key_names(source: PhysicalNode, spec: specs.SinkSpec) -> str:
    if not source.traits.keys:
        return "(none)"
    shortest = min(source.traits.keys, key=lambda k: (len(k), sorted(k)))
    return f"({', '.join(spec.schema.names[c] for c in sorted(shortest))})"


def _exchange(source: PhysicalNode, node: Sink, spec: specs.SinkSpec, parallelism: int) -> Exchange:
    if spec.connector == COLLECT:
        return Exchange(ExchangeKind.SINGLETON)
    if source.traits.is_insert_only and node.on_conflict is OnConflict.DEDUPLICATE and parallelism != 1:
        # The last row of a key is the last one that one writer gets.
        return Exchange(ExchangeKind.HASH, spec.primary_key)
    if parallelism == 0 or source.traits.is_insert_only:
        return FORWARD
    if parallelism == 1:
        return Exchange(ExchangeKind.SINGLETON)
    # Changes of one row must stay in order: they are distributed by key, or by the whole row without one.
    key = min(source.traits.keys, key=sorted, default=frozenset())
    columns = spec.primary_key or tuple(sorted(key)) or tuple(range(len(source.schema)))
    return Exchange(ExchangeKind.HASH, columns)


# The rows that a sink gets which changes those of its table.


def changing_rows(
    planning: Planning, source: PhysicalNode, node: Sink, spec: specs.ChangingSinkSpec
) -> PhysicalNode:
    """Of UPDATE and DELETE, the rows with the kinds that their last column says. UserError SS3493 for input without an end: old
    and new rows change places when there are no more."""
    if not source.traits.is_bounded:
        what = "INSERT OVERWRITE" if spec.action is SinkAction.OVERWRITE else spec.action.value
        raise UserError(
            "SS3493",
            f'{what} of table "{spec.table}" would never be done: what it reads has no end',
            span=node.span,
        )
    if not spec.action.changes_rows:
        return source
    if not source.traits.is_insert_only:
        # Which rows change is known when all rows have been read.
        source = plan_final_rows(planning, source)
    mark = specs.MarkChangesSpec(spec.action is SinkAction.DELETE)
    keys = frozenset({frozenset(spec.primary_key)}) if spec.primary_key else frozenset()
    return planning.node(
        "MarkChanges",
        mark,
        over(source),
        spec.schema,
        Traits(is_insert_only=False, is_bounded=True, keys=keys),
        describe("MarkChanges", kind="DELETE" if mark.is_deleting else "UPDATE"),
        node.span,
    )
