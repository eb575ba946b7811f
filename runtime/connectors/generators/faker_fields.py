"""The options `fields.#.…` of connector `faker`, and the columns that they describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlstream.errors import UserError, did_you_mean
from sqlstream.runtime.connectors.generators.faker_providers import Maker, Typed
from sqlstream.schema import Schema
from sqlstream.spi.connector import OptionDescriptor, OptionType
from sqlstream.types import (
    APPROXIMATE_ROOTS,
    STRING,
    LogicalType,
    TypeRoot,
    is_integer,
    is_numeric,
    is_timestamp,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.runtime.connectors.generators.datagen_generators import Generator, Numbers

_LENGTH = OptionDescriptor(
    "fields.#.length", OptionType.INTEGER, "Elements of a collection.", "1", minimum=0, takes_computed=True
)
_NULL_RATE = OptionDescriptor(
    "fields.#.null-rate",
    OptionType.DOUBLE,
    "The part of values that are NULL.",
    "0",
    minimum=0,
    takes_computed=True,
)
FIELD_OPTIONS = (
    OptionDescriptor(
        "fields.#.expression",
        OptionType.STRING,
        "The value: text with `#{Provider.method 'a','b'}` in it.",
        takes_computed=True,
    ),
    _NULL_RATE,
    _LENGTH,
)
_COLLECTIONS = (TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET)
_NESTED = (*_COLLECTIONS, TypeRoot.ROW)
_CLOCKS = (TypeRoot.DATE, TypeRoot.TIME)
_TRIED_ROWS, _TRIED_MS = 256, 1_700_000_000_000
_ELEMENTS_MAX = 10_000


def make_fields(schema: Schema, options: dict[str, str], seed: int) -> list[Generator]:
    """One generator per column. UserError SS4002, SS4003, SS4005, SS4006 for options that do not fit."""
    return _Fields(options, seed).columns(schema)


def check_fields(schema: Schema, options: dict[str, str], seed: int) -> None:
    """As `make_fields`, and SS4002 where the first rows have a value that is not of its column's type."""
    import numpy as np
    import pyarrow as pa

    fields = _Fields(options, seed)
    fields.columns(schema)
    for path, converted in fields.converted:
        key = f"fields.{path}.expression"
        hint = "change the expression, or the type of the column"
        try:
            made = converted.make(np.arange(_TRIED_ROWS, dtype=np.uint64), _TRIED_MS)
        except (UserError, pa.ArrowInvalid) as error:
            reason = error.message if isinstance(error, UserError) else str(error)
            message = f'option "{key}" makes values that are no {converted.type}: {reason}'
            raise UserError("SS4002", message, option=key, hint=hint) from error
        if made.null_count:
            message = f'option "{key}" makes values that no {converted.type} can hold'
            raise UserError("SS4002", message, option=key, hint=hint)


class _Fields:
    """State: the options that no column has used so far, and the values that are cast."""

    def __init__(self, options: dict[str, str], seed: int) -> None:
        self._left = {key: value for key, value in options.items() if key.startswith("fields.")}
        self._options, self._seed = options, seed
        self.converted: list[tuple[str, Converted]] = []

    def columns(self, schema: Schema) -> list[Generator]:
        made = [self._make(f.name, f.type) for f in schema.fields]
        # Those of computed columns, as the planner knows all columns, have no effect.
        self._left = {key: value for key, value in self._left.items() if key.split(".")[1] in schema.names}
        for key in self._left:
            raise UserError(
                "SS4003",
                f'option "{key}" has no use for a field of that type',
                option=key,
                hint=did_you_mean(key, sorted(set(self._options) - set(self._left))) or "remove it",
            )
        return made

    def _make(self, path: str, t: LogicalType) -> Generator:
        from sqlstream.runtime.connectors.generators.datagen_generators import WithNulls, draw_key

        rate = self._null_rate(path, t)
        generator = self._nested(path, t) if t.root in _NESTED else self._plain(path, t)
        return WithNulls(generator, rate, draw_key(self._seed, f"{path}?")) if rate else generator

    def _null_rate(self, path: str, t: LogicalType) -> float:
        key = f"fields.{path}.null-rate"
        rate = float(self._left.pop(key, _NULL_RATE.default or ""))
        if not 0 <= rate <= 1 or (rate > 0 and not t.nullable):
            raise UserError(
                "SS4002",
                f'option "{key}" cannot be {rate:g} for {t}',
                option=key,
                hint="write a number from 0 to 1, and 0 for a NOT NULL column",
            )
        return rate

    def _length(self, path: str) -> int:
        key = f"fields.{path}.length"
        length = int(self._left.pop(key, _LENGTH.default or ""))
        if not 0 <= length <= _ELEMENTS_MAX:
            raise UserError(
                "SS4002",
                f'option "{key}" cannot be {length}',
                option=key,
                hint=f"write a number from 0 to {_ELEMENTS_MAX}",
            )
        return length

    def _nested(self, path: str, t: LogicalType) -> Generator:
        from sqlstream.runtime.connectors.generators import datagen_generators as made
        from sqlstream.runtime.connectors.generators.faker_values import Counted

        if t.root is TypeRoot.ROW:
            return made.RandomRow(t, [self._make(f"{path}.{f.name}", f.type) for f in t.fields])
        length = self._length(path)
        assert t.element is not None
        if t.root is TypeRoot.MAP:
            assert t.key is not None
            keys = self._make(f"{path}.key", t.key.not_null())
            return made.RandomMap(t, length, keys, self._make(f"{path}.value", t.element))
        if t.root is TypeRoot.MULTISET:
            return Counted(t, length, self._element(path, t.element.not_null()))
        return made.RandomArray(t, length, self._element(path, t.element))

    def _element(self, path: str, t: LogicalType) -> Generator:
        """flink-faker's option of a collection is that of its elements."""
        return self._make(f"{path}.element", t) if t.root in _NESTED else self._plain(path, t)

    def _plain(self, path: str, t: LogicalType) -> Generator:
        key = f"fields.{path}.expression"
        text = self._left.pop(key, None)
        if text is None:
            raise UserError(
                "SS4005",
                f'field "{path}" of connector "faker" has no expression',
                hint=f"add '{key}' = '#{{…}}', or a plain text",
            )
        maker = Maker(key, self._seed)
        converted = Converted(maker.typed(text), t, key)
        self.converted.append((path, converted))
        return converted


class Converted:
    """Values cast to the type of their column, a whole column at once."""

    def __init__(self, source: Typed, t: LogicalType, key: str) -> None:
        from sqlstream.arrow import to_arrow_type
        from sqlstream.runtime.connectors.generators.faker_values import AsText
        from sqlstream.runtime.evaluate.cast import cast_kernel

        self.type, self.rows, self._key = t, source.generator.rows, key
        self._arrow = to_arrow_type(t)
        self._source = source.generator
        given = source.type
        if source.bounds is not None and is_integer(t):
            self._check_bounds(source.bounds)
        elif not _is_cast_directly(given, t) and given != STRING:
            self._source, given = AsText(self._source, given), STRING
        same = given.with_nullable(True) == t.with_nullable(True)
        self._cast = None if same else cast_kernel(given, t, "UTC", is_try=False)

    def _check_bounds(self, bounds: tuple[int, int]) -> None:
        most = 2 ** (self._arrow.bit_width - 1) - 1
        if bounds[0] < -most - 1 or bounds[1] > most:
            raise UserError(
                "SS4002",
                f'option "{self._key}" makes numbers from {bounds[0]} to {bounds[1]}, beyond {self.type}',
                option=self._key,
                hint="declare the column as BIGINT, or narrow the numbers",
            )

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        values = self._source.make(rows, now_ms)
        made = values if self._cast is None else self._cast(values)
        if made.null_count and not self.type.nullable:
            raise UserError(
                "SS4002",
                f'option "{self._key}" has made a value that no {self.type} can hold',
                option=self._key,
                hint="change the expression, or the type of the column",
            )
        return made if made.type == self._arrow else made.cast(self._arrow)


def _is_cast_directly(given: LogicalType, t: LogicalType) -> bool:
    """Whether these are cast as they are; others are written as text before."""
    if is_timestamp(given):
        return is_timestamp(t) or t.root in _CLOCKS
    if given.root in APPROXIMATE_ROOTS and is_integer(t):
        return False
    return (is_numeric(given) and is_numeric(t)) or given.root is t.root
