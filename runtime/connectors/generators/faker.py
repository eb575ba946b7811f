"""Connector `faker`: made-up rows by expressions, as flink-faker's; each row is a pure function of its number and the seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.fixed_splits import FixedSplits, own_share
from sqlstream.runtime.connectors.generators.faker_fields import FIELD_OPTIONS, check_fields, make_fields
from sqlstream.runtime.connectors.generators.generated_reader import GeneratedReader
from sqlstream.runtime.connectors.generators.numbered_rows import Split, paced_block_rows
from sqlstream.schema import Schema
from sqlstream.spi import connector
from sqlstream.spi.files import Files
from sqlstream.spi.lookup import CacheKind, LookupOptions
from sqlstream.spi.one_sided import SourceOnlyConnector
from sqlstream.spi.table_options import descriptors_of, option, parse_options

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.specs import SourceSpec

_NO_END = "-1"
_CELL_BYTES = 50
"""An upper estimate of a value's size in bytes, for most."""


@dataclass(frozen=True, kw_only=True)
class FakerOptions:
    """The options of a table, but for those of its fields."""

    rows_per_second: int = option(
        "rows-per-second",
        connector.OptionType.LONG,
        "Rows that all subtasks make per second, in total.",
        "10000",
        minimum=1,
    )
    number_of_rows: int = option(
        "number-of-rows",
        connector.OptionType.LONG,
        "How many rows the table has; with -1 it has no end.",
        _NO_END,
        minimum=-1,
    )
    seed: int = option("seed", connector.OptionType.LONG, "Seed of the random values.", "0")
    parallelism: int | None = option(
        "scan.parallelism", connector.OptionType.INTEGER, "How many subtasks make rows.", minimum=1
    )
    changelog_mode: str = option(
        "changelog.mode",
        connector.OptionType.ENUM,
        "Confluent's option: rows are only added.",
        "append",
        choices=("append",),
    )


class Faker(SourceOnlyConnector):
    """A source without format, and a table that finds a row for every key."""

    descriptor = connector.ConnectorDescriptor(
        identifier="faker",
        options=(*descriptors_of(FakerOptions), *FIELD_OPTIONS),
        reading=connector.Reading(
            boundedness=connector.Boundedness(False, unless_set="number-of-rows", set_default=_NO_END),
            limits=True,
            lookups=True,
        ),
    )

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        """Check that each column has an expression whose values are of its type. UserError SS4002, SS4003, SS4005, SS4006."""
        if LookupOptions.of(options).cache is CacheKind.FULL:
            raise UserError(
                "SS4003",
                f'table "{table}" has a row for every key, and cannot be loaded as a whole',
                option="lookup.cache",
                hint="use the lookup cache PARTIAL or NONE",
            )
        check_fields(schema, options, parse_options(FakerOptions, options).seed)

    def source(
        self, spec: SourceSpec, context: connector.ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> connector.SourceReader:
        options = _options(spec)
        return GeneratedReader(
            spec,
            context,
            own_share(self, spec, context) if splits is None else splits,
            make_fields(spec.schema, spec.options, options.seed),
            rate=options.rows_per_second,
            row_count=None if options.number_of_rows < 0 else options.number_of_rows,
        )

    def split_enumerator(
        self, spec: SourceSpec, context: connector.EnumeratorContext, state: dict[str, Any] | None
    ) -> connector.SplitEnumerator:
        block_rows = paced_block_rows(_options(spec).rows_per_second, context)
        return FixedSplits(Split.all(context.parallelism, block_rows), state)

    def lookup_source(
        self, spec: SourceSpec, keys: tuple[str, ...], context: connector.ConnectorContext
    ) -> connector.LookupSource:
        return FakerLookup(spec, context)

    def input_bytes(self, spec: SourceSpec, files: Files) -> int:
        return max(0, _options(spec).number_of_rows) * _CELL_BYTES * max(1, len(spec.columns))


def _options(spec: SourceSpec) -> FakerOptions:
    return parse_options(FakerOptions, spec.options)


class FakerLookup:
    """Makes one row for each key, whose number is a hash of the key: the same row whenever and wherever it is asked for."""

    def __init__(self, spec: SourceSpec, context: connector.ConnectorContext) -> None:
        self._spec, self._now_ms = spec, context.now_ms
        self._generators = make_fields(spec.schema, spec.options, _options(spec).seed)

    def lookup(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        from sqlstream.runtime.kernels.keys.hashing import hash_columns

        rows, now_ms = hash_columns(keys.columns), self._now_ms()
        given = dict(zip(keys.schema.names, keys.columns, strict=True))
        columns = [
            given[name]
            if name in given
            else self._generators[self._spec.schema.index_of(name)].make(rows, now_ms)
            for name in self._spec.columns
        ]
        return pa.RecordBatch.from_arrays(columns, names=list(self._spec.columns))

    def load(self, rows_max: int) -> pa.RecordBatch:
        raise UserError(
            "SS4003",
            f'table "{self._spec.table}" cannot be loaded as a whole',
            hint="look it up by key: leave 'lookup.cache' = 'FULL' out",
        )

    def close(self) -> None:
        """Nothing to do: it holds no resources."""
