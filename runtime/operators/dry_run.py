"""What an operator keeps, found out by giving it rows that are made up."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema, to_arrow_type, with_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.errors import InternalError
from sqlstream.graph.job_graph import ChainedOperator
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.deferred_rows import DeferredRows
from sqlstream.runtime.operators.equal_values import key_groups
from sqlstream.runtime.operators.iterate import Iterate
from sqlstream.runtime.operators.mutual_iterate import MutualIterate
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.process.row_states import make_state
from sqlstream.runtime.operators.process.states import KeyedList, KeyedMap, KeyedValue, KeySet, places_of
from sqlstream.runtime.operators.process.timers import Timers
from sqlstream.runtime.state.snapshots.current_rows import SLOT_COLUMN, VERSION_COLUMN
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN
from sqlstream.specs.process_table import TIMERS, ProcessTableSpec
from sqlstream.types import LogicalType, TypeRoot

ROWS = 12_288
"""Three quarters of a power of two: tables that double are then as full as they are on average."""
TEXT_LENGTH = 8
_FIXED = frozenset({KEY_GROUP_COLUMN, SLOT_COLUMN, VERSION_COLUMN})


@dataclasses.dataclass(frozen=True)
class KeptTable:
    """A table that an operator declares, with its columns as a checkpoint has them."""

    name: str
    columns: pa.Schema
    is_keyed: bool


@dataclasses.dataclass(frozen=True)
class KeptState:
    """`bytes_per_row` is the memory for a row with a key of its own, per input. Texts in it have TEXT_LENGTH characters, and
    nested values are empty."""

    tables: tuple[KeptTable, ...]
    bytes_per_row: tuple[int, ...]


def kept_state(chained: ChainedOperator, config: Mapping[str, str]) -> KeptState:
    """Run the operator alone over rows that are all different. It opens nothing."""
    tables: dict[str, KeptTable] = {}
    sizes = []
    for number in range(len(chained.input_schemas)):
        operator = _opened(chained, config)
        _feed(operator, number, 0)
        before = operator.context.state.nbytes()
        _feed(operator, number, ROWS)
        sizes.append(round((operator.context.state.nbytes() - before) / ROWS))
        tables |= _tables(operator)
        operator.close()
    return KeptState(tuple(tables.values()), tuple(sizes))


def _opened(chained: ChainedOperator, config: Mapping[str, str]) -> Operator[Any]:
    context = OperatorContext(
        chained.input_schemas,
        chained.input_modes,
        chained.output_schema,
        chained.output_mode,
        config=dict(config),
    )
    if isinstance(chained.spec, ProcessTableSpec):
        return _StatesAlone(chained.spec, context)
    return make_operator(chained.spec, context)


class _StatesAlone(Operator[ProcessTableSpec]):
    """The states of a user's function, of which nothing is called: a value for each key."""

    def __init__(self, spec: ProcessTableSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._places = places_of(spec, context)
        assert spec.ref.process is not None
        self._states = [
            make_state(declared, state_type, None, spec.ttl_of(declared.ttl_ms), self._places, None)
            for declared, state_type in zip(spec.ref.process.states, spec.ref.state_types, strict=True)
        ]
        self._timers = Timers(TIMERS, self._places, 1_000) if "on_timer" in spec.ref.methods else None
        for state in (*self._states, *([] if self._timers is None else [self._timers])):
            context.state.add(state.table)

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        keys = self.spec.inputs[input_index].partition_keys
        _, first_rows, columns = key_groups(batch, keys)
        found = KeySet(self._places.keys.names, columns, len(first_rows))
        groups = np.arange(len(found))

        def made(t: LogicalType) -> pa.Array:
            return made_up(to_arrow_type(t), 0).slice(0, len(found))

        if self._timers is not None:
            self._timers.register(found, None, groups)
        for state in self._states:
            match state:
                case KeyedValue():
                    state.put(found, made(state.logical))
                case KeyedList():
                    state.append(found, groups, made(state.element))
                case KeyedMap():
                    state.put(found, groups, made(state.key_type), made(state.element))


def _feed(operator: Operator[Any], number: int, first: int) -> None:
    context = operator.context
    schema = to_arrow_schema(context.input_schemas[number])
    types = context.input_schemas[number].types
    columns = [
        _bitmaps(first) if t.root is TypeRoot.BITMAP else made_up(field.type, first)
        for field, t in zip(schema, types, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    if not context.input_modes[number].is_insert_only:
        batch = with_row_kinds(batch, RowKind.INSERT)
    operator.on_batch(batch, number, Nowhere())
    if isinstance(operator, Iterate | MutualIterate):
        operator.run_one_round(Nowhere())


def _tables(operator: Operator[Any]) -> dict[str, KeptTable]:
    snapshot = operator.context.state.snapshot()
    found = {}
    for tables, is_keyed in ((snapshot.keyed, True), (snapshot.shared, False)):
        for name, table in tables.items():
            columns = pa.schema([f for f in table.schema if f.name not in _FIXED])
            found[name] = KeptTable(name, columns, is_keyed)
    return found


class Nowhere:
    """Implements `Output`; what is emitted is dropped."""

    splits_rows = False

    def emit(self, batch: pa.RecordBatch) -> None:
        return None

    def emit_rows(self, batch: pa.RecordBatch, rows: Any) -> None:
        return None

    def emit_deferred(self, rows: DeferredRows) -> None:
        return None

    def emit_watermark(self, timestamp_ms: int) -> None:
        return None

    def emit_idle(self, is_idle: bool) -> None:
        return None


def _bitmaps(first: int) -> pa.Array:
    """ROWS bitmaps of one value."""
    from sqlstream.runtime.evaluate.bitmap import Bitmaps

    return Bitmaps.of_elements(np.arange(ROWS), np.arange(first, first + ROWS), ROWS, None).column()


def made_up(data_type: pa.DataType, first: int) -> pa.Array:
    """ROWS values, distinct where the type has so many, from number `first` on."""
    numbers = np.arange(first, first + ROWS)
    if pa.types.is_boolean(data_type):
        return pa.array(numbers % 2 == 1)
    if pa.types.is_string(data_type) or pa.types.is_large_string(data_type):
        return pa.array([f"{n:0{TEXT_LENGTH}d}" for n in numbers.tolist()], data_type)
    if pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type):
        return pa.array([f"{n:0{TEXT_LENGTH}d}".encode() for n in numbers.tolist()], data_type)
    if pa.types.is_decimal(data_type):
        digits = min(data_type.precision - data_type.scale, 9)
        return pa.array(numbers % 10**digits, pa.int64()).cast(pa.decimal128(38, 0)).cast(data_type)
    if pa.types.is_struct(data_type):
        return pa.StructArray.from_arrays([made_up(f.type, first) for f in data_type], fields=list(data_type))
    if pa.types.is_list(data_type) or pa.types.is_map(data_type):
        return pa.array([[]] * ROWS, data_type)
    if pa.types.is_null(data_type):
        return pa.nulls(ROWS)
    return _number(data_type, numbers)


def _number(data_type: pa.DataType, numbers: np.ndarray[Any, Any]) -> pa.Array:
    width = data_type.bit_width
    if pa.types.is_floating(data_type):
        return pa.array(numbers.astype(f"float{width}"), data_type)
    if width not in (8, 16, 32, 64):
        raise InternalError(f"no values can be made up for {data_type}")
    kept = (numbers % (1 << min(width - 1, 62))).astype(f"int{width}")
    return pa.array(kept, pa.from_numpy_dtype(kept.dtype)).view(data_type)
