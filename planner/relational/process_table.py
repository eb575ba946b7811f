"""A user's process table function over its tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Expression, SortKey
from sqlstream.function_ref import FunctionRef
from sqlstream.graph.stream_graph import FORWARD
from sqlstream.planner.physical.description import describe, describe_order
from sqlstream.planner.physical.node import Columns, PhysicalInput, PhysicalNode, Traits
from sqlstream.planner.physical.planning import Planning, hash_or_singleton, over
from sqlstream.planner.physical.refusals import require_insert_only, require_time
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.planner import Inputs
from sqlstream.planner.relational.scan import normalized
from sqlstream.schema import Field, Schema
from sqlstream.specs.process_table import ProcessInput, ProcessOutputSpec, ProcessTableSpec, output_places
from sqlstream.types import TINYINT


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ProcessTable(base.RelationalNode):
    """The rows that the function makes of `tables`, which it reads as `reads` says: see ProcessTableSpec. A function sees all
    columns of its tables, so none is pruned."""

    tables: tuple[base.RelationalNode, ...]
    ref: FunctionRef
    reads: tuple[ProcessInput, ...]
    arguments: tuple[Expression | None, ...]
    uid: str = ""

    @property
    def inputs(self) -> tuple[base.RelationalNode, ...]:
        return self.tables

    def with_inputs(self, inputs: tuple[base.RelationalNode, ...]) -> base.RelationalNode:
        return dataclasses.replace(self, tables=inputs)

    def describe(self) -> str:
        keys = [f"{r.name}=[{base.columns_text(r.partition_keys)}]" for r in self.reads if r.partition_keys]
        orders = [
            f"{r.name}=[{base.order_text((SortKey(r.order_column), *r.order))}]"
            for r in self.reads
            if r.order_column >= 0
        ]
        return base.join_parts(
            f"function=[{self.ref.path}]",
            f"partition=[{', '.join(keys)}]" if keys else "",
            f"order=[{', '.join(orders)}]" if orders else "",
            f"time=[${self.reads[0].time_column}]" if self.reads[0].time_column >= 0 else "",
            f"uid=[{self.uid}]" if self.uid else "",
        )

    @property
    def is_built_in(self) -> bool:
        """COUNT_WINDOW, which reads no column but those of PARTITION BY."""
        return self.ref.module.startswith("sqlstream.")

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        if not self.is_built_in:
            return super().trim(pruning, wanted, time)
        (read,), (table,) = self.reads, self.tables
        width = len(table.schema)
        own = self.schema.fields[width:]
        used = (*read.partition_keys, read.time_column, read.order_column, *(k.column for k in read.order))
        below = frozenset(c for c in (*wanted, *used) if 0 <= c < width)
        source, places = pruning.trim(table, below or base.one_column(table.schema), time)
        fields = source.schema.fields
        keys = tuple(places[k] for k in read.partition_keys)
        moved = msgspec.structs.replace(
            read,
            columns=source.schema.names,
            partition_keys=keys,
            time_column=places.get(read.time_column, -1),
            order_column=places.get(read.order_column, -1),
            order=base.moved_order(read.order, places),
        )
        made = dataclasses.replace(self, tables=(source,), reads=(moved,), schema=Schema((*fields, *own)))
        found = {c: places[c] for c in below} | {width + i: len(fields) + i for i in range(len(own))}
        return made, found

    def origin(self, column: int) -> tuple[base.RelationalNode, int] | None:
        copied = self.reads[0].copied
        is_copy = len(self.tables) == 1 and column < len(copied)
        return (self.tables[0], copied[column]) if is_copy else None


def output_fields(reads: tuple[ProcessInput, ...], schemas: Sequence[Schema]) -> tuple[Field, ...]:
    """The columns of tables that the output begins with; of equal names the later ones have a number behind them, as Flink's."""
    names: set[str] = set()
    fields = []
    for read, schema in zip(reads, schemas, strict=True):
        for column in read.copied:
            field = schema.fields[column]
            name, number = read.columns[column], 0
            while name in names:
                name, number = f"{read.columns[column]}{number}", number + 1
            names.add(name)
            fields.append(Field(name, field.type.without_time_attribute()))
    return tuple(fields)


OUTPUT_NUMBER = "$output"


def made_schema(
    ref: FunctionRef, reads: tuple[ProcessInput, ...], schemas: Sequence[Schema], time: Field | None
) -> Schema:
    """What the operator puts out; with side outputs the columns of all of them: see ProcessTableSpec."""
    assert ref.process is not None
    own = [Field(f.name, f.type) for f in ref.result_type.fields]
    last = [time] if time is not None else []
    if ref.output_types:
        for output, t in zip(ref.process.outputs, ref.output_types, strict=True):
            own += [Field(f"{output.name}.{f.name}", f.type) for f in t.fields]
        own = [Field(field.name, field.type.with_nullable(True)) for field in own]
        last.append(Field(OUTPUT_NUMBER, TINYINT.not_null()))
    return Schema((*output_fields(reads, schemas), *own, *last))


def chosen_schema(ref: FunctionRef, reads: tuple[ProcessInput, ...], made: Schema, number: int) -> Schema:
    """The columns of one output of those that are `made`, as the function declares them."""
    own = (ref.result_type, *ref.output_types)[number].fields
    fields = [made.fields[place] for place in output_places(reads, ref, number)]
    copied = sum(len(read.copied) for read in reads)
    fields[copied : copied + len(own)] = [Field(f.name, f.type) for f in own]
    return Schema(tuple(fields))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ProcessOutput(base.SingleInputNode):
    """The rows of one output of a function that has several: these columns. `name` is that of a side output, whose number is
    positive. With `keys`, columns of the input, a row replaces the one of its key."""

    number: int
    name: str
    columns: tuple[int, ...]
    keys: tuple[int, ...] = ()

    @classmethod
    def of(cls, function: ProcessTable, name: str) -> ProcessOutput:
        """The side output of this name; that of `result_type` without one."""
        ref = function.ref
        assert ref.process is not None
        number = 1 + [o.name for o in ref.process.outputs].index(name) if name else 0
        return cls(
            input=function,
            number=number,
            name=name,
            columns=output_places(function.reads, ref, number),
            keys=key_places(function.reads)
            if ref.process.mode is ChangelogMode.UPSERT and not number
            else (),
            schema=chosen_schema(ref, function.reads, function.schema, number),
            span=function.span,
        )

    def describe(self) -> str:
        return base.join_parts(
            f"output=[{self.name or 'result'}]", f"columns=[{base.columns_text(self.columns)}]"
        )

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        source = pruning.exactly(self.input, frozenset(range(len(self.input.schema))), True)
        kept = tuple(sorted(wanted.union(self.columns.index(key) for key in self.keys)))
        made = dataclasses.replace(
            self, input=source, columns=tuple(self.columns[c] for c in kept), schema=self.schema.select(kept)
        )
        return made, base.places_of(kept)

    def origin(self, column: int) -> tuple[base.RelationalNode, int] | None:
        return self.input, self.columns[column]


def plan_process_output(planning: Planning, inputs: Inputs, node: ProcessOutput) -> PhysicalNode:
    """A side output only adds rows, whatever the function's other output does."""
    source = inputs[0]
    traits = source.traits.projected({c: frozenset({place}) for place, c in enumerate(node.columns)})
    if node.number:
        traits = Traits(is_bounded=traits.is_bounded, times=traits.times)
    made = planning.node(
        "ProcessOutput",
        ProcessOutputSpec(node.number, node.columns),
        over(source),
        node.schema,
        traits,
        describe("ProcessOutput", output=node.name or "result"),
        node.span,
    )
    keys = tuple(node.columns.index(key) for key in node.keys)
    return _whole_rows(planning, made, keys, node.span) if keys else made


def plan_process_table(planning: Planning, inputs: Inputs, node: ProcessTable) -> PhysicalNode:
    """Rows of a key meet in one subtask; a table with row semantics stays where it is."""
    assert node.ref.process is not None
    sources = tuple(inputs)
    edges = []
    for read, source in zip(node.reads, sources, strict=True):
        _check_updates(source, read, node)
        exchange = hash_or_singleton(read.partition_keys) if read.has_set_semantics else FORWARD
        edges.append(PhysicalInput(source, exchange))
        if read.time_column >= 0:
            require_time(source, read.time_column, node.ref.name, node.span)
        if read.order_column >= 0:
            require_time(source, read.order_column, f"{node.ref.name} in order of row time", node.span)
    is_single = node.reads[0].has_set_semantics and not node.reads[0].partition_keys
    spec = ProcessTableSpec(
        node.ref,
        node.uid or ("" if node.is_built_in else node.ref.name),
        node.reads,
        node.arguments,
        planning.state_ttl_ms,
    )
    times = frozenset({output_places(node.reads, node.ref, 0)[-1]}) if spec.has_on_time else frozenset()
    _check_uid(planning, spec, node)
    partitions = [
        f"{read.name}=[{', '.join(read.columns[k] for k in read.partition_keys)}]"
        for read in node.reads
        if read.partition_keys
    ]
    orders = [
        f"{read.name}=[{describe_order((SortKey(read.order_column), *read.order), source.schema)}]"
        for read, source in zip(node.reads, sources, strict=True)
        if read.order_column >= 0
    ]
    mode = node.ref.process.mode
    made = planning.node(
        "ProcessTableFunction",
        spec,
        tuple(edges),
        node.schema,
        Traits(
            is_insert_only=mode.is_insert_only,
            is_bounded=all(s.traits.is_bounded for s in sources),
            times=times,
            is_by_key=mode is ChangelogMode.UPSERT,
        ),
        describe(
            "ProcessTableFunction",
            function=node.ref.path,
            partitionBy=f"[{', '.join(partitions)}]" if partitions else "",
            orderBy=f"[{', '.join(orders)}]" if orders else "",
            onTime=node.reads[0].columns[node.reads[0].time_column] if spec.has_on_time else "",
            uid=spec.uid,
        ),
        node.span,
        parallelism=1 if is_single else 0,
    )
    is_whole = mode is not ChangelogMode.UPSERT or node.ref.output_types
    return made if is_whole else _whole_rows(planning, made, key_places(node.reads), node.span)


def key_places(reads: tuple[ProcessInput, ...]) -> tuple[int, ...]:
    """Where the columns of PARTITION BY are in the output: by their values the rows of an UPSERT replace each other."""
    return tuple(range(len(reads[0].partition_keys)))


def _whole_rows(
    planning: Planning, made: PhysicalNode, keys: tuple[int, ...], span: Span | None
) -> PhysicalNode:
    """Changes by key as changes of whole rows; each change counts."""
    return normalized(planning, made, keys, (), span, keeps_changes=True, is_distributed=True)


def _check_updates(source: PhysicalNode, read: ProcessInput, node: ProcessTable) -> None:
    """UserError SS3011 for a table that updates and is not declared so, SS3437 for one that has times as well."""
    assert node.ref.process is not None
    table = next(t for t in node.ref.process.tables if t.name == read.name)
    has_time = read.time_column >= 0 or read.order_column >= 0
    if "SUPPORT_UPDATES" not in table.traits:
        hint = "let it read a table that only grows, or declare the argument with SUPPORT_UPDATES"
        if node.is_built_in:
            hint = "let it read a table that only grows, or number the rows with ROW_NUMBER() OVER (PARTITION BY … ORDER BY …)"
        require_insert_only(source, node.ref.name, node.span, hint)
    elif has_time and not source.traits.is_insert_only:
        raise UserError(
            "SS3437",
            f'table "{read.name}" updates its rows, and has neither on_time nor ORDER BY',
            span=node.span,
            hint="leave them out, or let the function read a table that only grows",
        )
    if not node.ref.process.mode.is_insert_only and read.time_column >= 0:
        raise UserError(
            "SS3437",
            f"{node.ref.name} changes rows that it has put out, and its output has no rowtime",
            span=node.span,
            hint="call it without on_time",
        )


def _check_uid(planning: Planning, spec: ProcessTableSpec, node: ProcessTable) -> None:
    """UserError SS3433 for two calls whose states could not be told apart."""
    if not spec.uid or not any(read.has_set_semantics for read in node.reads):
        return
    other = planning.process_uids.setdefault(spec.uid, node)
    if other is not node and other != node:
        raise UserError(
            "SS3433",
            f'two calls of process table functions have the uid "{spec.uid}"',
            span=node.span,
            hint=f"give each one of its own: {node.ref.name}(…, uid => '{spec.uid}_2')",
        )
