"""The options `fields.#.…` of connector `datagen`, and the generators that they describe."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from sqlstream.errors import UserError
from sqlstream.schema import Schema
from sqlstream.spi.connector import OptionDescriptor, OptionType
from sqlstream.times import DAY_MS
from sqlstream.types import (
    BINARY_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    VARCHAR_LENGTH_MAX,
    LogicalType,
    TypeRoot,
    is_integer,
    is_interval,
    is_numeric,
)

if TYPE_CHECKING:
    from sqlstream.runtime.connectors.generators.datagen_generators import Generator

FIELD_OPTIONS = (
    OptionDescriptor(
        "fields.#.kind", OptionType.ENUM, "How values are made.", "random", choices=("random", "sequence")
    ),
    OptionDescriptor("fields.#.min", OptionType.STRING, "Least random number; by default the type's least."),
    OptionDescriptor(
        "fields.#.max", OptionType.STRING, "Greatest random number; by default the type's greatest."
    ),
    OptionDescriptor(
        "fields.#.max-past", OptionType.DURATION, "How far a random timestamp may lie before now.", "0"
    ),
    OptionDescriptor(
        "fields.#.length",
        OptionType.INTEGER,
        "Length of a text or BYTES (by default as declared, or 100), elements of a collection (by default 3).",
        minimum=0,
    ),
    OptionDescriptor(
        "fields.#.var-len",
        OptionType.BOOLEAN,
        "Whether texts and BYTES have any length from 1 to it.",
        "false",
    ),
    OptionDescriptor("fields.#.start", OptionType.STRING, "First value of a sequence."),
    OptionDescriptor(
        "fields.#.end", OptionType.STRING, "Last value of a sequence, with which the table ends."
    ),
    OptionDescriptor(
        "fields.#.null-rate", OptionType.DOUBLE, "The part of values that are NULL.", "0", minimum=0
    ),
)

_INTEGER_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INTEGER: 32, TypeRoot.BIGINT: 64}
_FLOAT_MAX = {TypeRoot.FLOAT: 3.4028234663852886e38, TypeRoot.DOUBLE: 1.7976931348623157e308}


_BY_NAME = {option.key.removeprefix("fields.#."): option for option in FIELD_OPTIONS}


class FieldOptions:
    """The options of fields. It records which were read, so that an option without an effect is refused."""

    def __init__(self, options: dict[str, str]) -> None:
        self._left = {key: value for key, value in options.items() if key.startswith("fields.")}

    def take(self, path: str, name: str) -> str | None:
        return self._left.pop(f"fields.{path}.{name}", None)

    def value(self, path: str, name: str) -> Any:
        """The option's value, else its default."""
        descriptor = _BY_NAME[name]
        text = self.take(path, name)
        return descriptor.parse(descriptor.default or "" if text is None else text)

    def refuse_rest(self) -> None:
        for key in self._left:
            raise UserError(
                "SS4003",
                f'option "{key}" has no use for a field of that type and kind',
                option=key,
                hint="remove it, or set the field's kind",
            )


def make_generators(schema: Schema, options: dict[str, str], seed: int) -> list[Generator]:
    """One generator per column. UserError SS4002, SS4003, SS4005 for an option that does not fit."""
    fields = FieldOptions(options)
    generators = [_make(f.name, f.type, fields, seed) for f in schema.fields]
    fields.refuse_rest()
    return generators


def _make(path: str, t: LogicalType, fields: FieldOptions, seed: int) -> Generator:
    from sqlstream.runtime.connectors.generators import datagen_generators as made

    if fields.value(path, "kind") == "sequence":
        return _make_sequence(path, t, fields)
    null_rate = _null_rate(path, t, fields)
    generator = _make_random(path, t, fields, seed)
    return made.WithNulls(generator, null_rate, made.draw_key(seed, f"{path}?")) if null_rate else generator


def _null_rate(path: str, t: LogicalType, fields: FieldOptions) -> float:
    rate: float = fields.value(path, "null-rate")
    if not 0 <= rate <= 1 or (rate > 0 and not t.nullable):
        raise UserError(
            "SS4002",
            f'option "fields.{path}.null-rate" cannot be {rate:g} for {t}',
            option=f"fields.{path}.null-rate",
            hint="write a number from 0 to 1, and 0 for a NOT NULL column",
        )
    return rate


def _make_sequence(path: str, t: LogicalType, fields: FieldOptions) -> Generator:
    from sqlstream.runtime.connectors.generators.datagen_generators import Sequence

    if not (is_numeric(t) or t.root in STRING_ROOTS):
        raise UserError(
            "SS4002",
            f'option "fields.{path}.kind" cannot be "sequence" for {t}',
            option=f"fields.{path}.kind",
            hint="sequences are of numbers and strings",
        )
    bounds = []
    for name in ("start", "end"):
        text = fields.take(path, name)
        if text is None:
            raise UserError(
                "SS4005",
                f'sequence field "{path}" needs the option "fields.{path}.{name}"',
                option=f"fields.{path}.kind",
                hint="write a whole number",
            )
        bounds.append(_integer(f"fields.{path}.{name}", text))
    start, end = bounds
    low, high = _integer_range(t) if is_integer(t) else (-(2**63), 2**63 - 1)
    if start > end or start < low or end > high:
        raise UserError(
            "SS4002",
            f'the sequence of field "{path}" cannot go from {start} to {end} for {t}',
            option=f"fields.{path}.{'end' if low <= start <= high else 'start'}",
            hint="count upwards",
        )
    return Sequence(t, start, end)


def _make_random(path: str, t: LogicalType, fields: FieldOptions, seed: int) -> Generator:
    from sqlstream.runtime.connectors.generators import datagen_generators as made

    key = made.draw_key(seed, path)
    match t.root:
        case _ if is_integer(t):
            low, high = _integer_bounds(path, t, fields)
            return made.RandomInteger(t, key, low, high)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return made.RandomFloat(t, key, *_float_bounds(path, t, fields))
        case TypeRoot.DECIMAL:
            return made.RandomDecimal(t, key, *_decimal_bounds(path, t, fields))
        case TypeRoot.BOOLEAN:
            return made.RandomBoolean(t, key)
        case _ if t.root in STRING_ROOTS + BINARY_ROOTS:
            return _make_text(path, t, fields, key)
        case _ if t.root in TIMESTAMP_ROOTS:
            return made.RandomMoment(t, key, _past_ms(path, t, fields))
        case TypeRoot.DATE | TypeRoot.TIME:
            return made.RandomMoment(t, key, 0)
        case _ if is_interval(t):
            high = 120_000 if t.root is TypeRoot.INTERVAL_YEAR_MONTH else 30 * DAY_MS
            return made.RandomInteger(t, key, 0, high)
        case _:
            return _make_nested(path, t, fields, seed)


def _past_ms(path: str, t: LogicalType, fields: FieldOptions) -> int:
    """How far moments may lie before now: less than to the first year that the type holds."""
    past_ms: int = fields.value(path, "max-past")
    years = 300 if t.precision > 6 else 1_900
    if past_ms > years * 365 * DAY_MS:
        hint = f"write at most {years * 365} d"
        if t.precision > 6:
            hint += ", or declare the column with at most six digits of a second"
        raise UserError(
            "SS4002",
            f'option "fields.{path}.max-past" is too long for {t}',
            option=f"fields.{path}.max-past",
            hint=hint,
        )
    return past_ms


def _make_nested(path: str, t: LogicalType, fields: FieldOptions, seed: int) -> Generator:
    from sqlstream.runtime.connectors.generators import datagen_generators as made

    if t.root is TypeRoot.ROW:
        return made.RandomRow(t, [_make(f"{path}.{f.name}", f.type, fields, seed) for f in t.fields])
    length = _integer(f"fields.{path}.length", fields.take(path, "length") or "3")
    if t.root is TypeRoot.ARRAY:
        assert t.element is not None
        return made.RandomArray(t, length, _make(f"{path}.element", t.element, fields, seed))
    if t.root is TypeRoot.MAP:
        assert t.key is not None
        assert t.element is not None
        keys = _make(f"{path}.key", t.key.not_null(), fields, seed)
        return made.RandomMap(t, length, keys, _make(f"{path}.value", t.element, fields, seed))
    if t.root is TypeRoot.MULTISET:
        assert t.element is not None
        counts = made.RandomInteger(LogicalType(TypeRoot.INTEGER), made.draw_key(seed, f"{path}#"), 1, 9)
        return made.RandomMap(t, length, _make(f"{path}.element", t.element.not_null(), fields, seed), counts)
    raise UserError(
        "SS4006",
        f'connector "datagen" cannot make field "{path}" of type {t}',
        column=path.partition(".")[0],
        hint="leave it out",
    )


def _make_text(path: str, t: LogicalType, fields: FieldOptions, key: int) -> Generator:
    from sqlstream.runtime.connectors.generators.datagen_generators import RandomText

    is_open = t.length == VARCHAR_LENGTH_MAX
    declared = 100 if is_open else t.length
    text = fields.take(path, "length")
    length = declared if text is None else _integer(f"fields.{path}.length", text)
    is_fixed = t.root in (TypeRoot.CHAR, TypeRoot.BINARY)
    varies: bool = fields.value(path, "var-len")
    if (is_fixed and (varies or length != t.length)) or (not is_open and length > t.length):
        raise UserError(
            "SS4002",
            f'field "{path}" of type {t} cannot have the length {length}',
            option=f"fields.{path}.{'var-len' if is_fixed and varies else 'length'}",
            hint="declare it as STRING or BYTES",
        )
    return RandomText(t, key, length, varies)


def _integer(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise UserError(
            "SS4002", f'option "{key}" takes a whole number, not "{text}"', option=key, hint="write '4'"
        ) from error


def _integer_range(t: LogicalType) -> tuple[int, int]:
    bits = _INTEGER_BITS[t.root]
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _integer_bounds(path: str, t: LogicalType, fields: FieldOptions) -> tuple[int, int]:
    low, high = _integer_range(t)
    texts = fields.take(path, "min"), fields.take(path, "max")
    bounds = (
        low if texts[0] is None else _integer(f"fields.{path}.min", texts[0]),
        high if texts[1] is None else _integer(f"fields.{path}.max", texts[1]),
    )
    _check_bounds(path, t, bounds, (low, high))
    return bounds


def _float_bounds(path: str, t: LogicalType, fields: FieldOptions) -> tuple[float, float]:
    most = _FLOAT_MAX[t.root]
    low, high = _number(path, "min", fields, -most), _number(path, "max", fields, most)
    _check_bounds(path, t, (low, high), (-most, most))
    return float(low), float(high)


def _decimal_bounds(path: str, t: LogicalType, fields: FieldOptions) -> tuple[int, int]:
    """Least and greatest value in units of the last digit. Made decimals have 18 digits at most."""
    most = 10 ** min(t.precision, 18) - 1
    unit = Decimal(1).scaleb(-t.scale)
    bounds = tuple(
        int(Decimal(_number(path, name, fields, most_signed * unit)) / unit)
        for name, most_signed in (("min", -most), ("max", most))
    )
    _check_bounds(path, t, bounds, (-most, most))
    return bounds[0], bounds[1]


def _number(path: str, name: str, fields: FieldOptions, default: Any) -> Any:
    text = fields.take(path, name)
    if text is None:
        return default
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise UserError(
            "SS4002",
            f'option "fields.{path}.{name}" takes a number, not "{text}"',
            option=f"fields.{path}.{name}",
            hint="write '0.5'",
        ) from error


def _check_bounds(path: str, t: LogicalType, bounds: tuple[Any, ...], most: tuple[Any, Any]) -> None:
    if bounds[0] > bounds[1] or bounds[0] < most[0] or bounds[1] > most[1]:
        raise UserError(
            "SS4002",
            f'options "fields.{path}.min" and "fields.{path}.max" leave no value of type {t}',
            option=f"fields.{path}.{'max' if most[0] <= bounds[0] <= most[1] else 'min'}",
            hint="write numbers that the type can hold, the lesser one as min",
        )
