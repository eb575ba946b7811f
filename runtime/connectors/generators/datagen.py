"""Connector `datagen`: generated rows, each a pure function of its number and the seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlstream.runtime.connectors.fixed_splits import FixedSplits, own_share
from sqlstream.runtime.connectors.generators.datagen_options import FIELD_OPTIONS, make_generators
from sqlstream.runtime.connectors.generators.generated_reader import GeneratedReader
from sqlstream.runtime.connectors.generators.numbered_rows import Split, paced_block_rows
from sqlstream.schema import Schema
from sqlstream.spi import connector
from sqlstream.spi.files import Files
from sqlstream.spi.one_sided import SourceOnlyConnector
from sqlstream.spi.table_options import descriptors_of, option, parse_options

if TYPE_CHECKING:
    from sqlstream.specs import SourceSpec


@dataclass(frozen=True, kw_only=True)
class DatagenOptions:
    """The options of a table, but for those of its fields."""

    rows_per_second: int = option(
        "rows-per-second",
        connector.OptionType.LONG,
        "Rows that all subtasks generate per second, in total.",
        "10000",
        minimum=1,
    )
    row_count: int | None = option(
        "number-of-rows",
        connector.OptionType.LONG,
        "How many rows the table has; without it, it has no end.",
        minimum=0,
    )
    seed: int = option("seed", connector.OptionType.LONG, "Seed of the random values.", "0")
    parallelism: int | None = option(
        "scan.parallelism", connector.OptionType.INTEGER, "How many subtasks make rows.", minimum=1
    )


_CELL_BYTES = 100
"""An upper estimate of a value's size in bytes: a string of the default length."""


class Datagen(SourceOnlyConnector):
    """A source without format. All readers share one sequence of rows; a table with a sequence field ends when that does."""

    descriptor = connector.ConnectorDescriptor(
        identifier="datagen",
        options=(*descriptors_of(DatagenOptions), *FIELD_OPTIONS),
        reading=connector.Reading(
            boundedness=connector.Boundedness(False, unless_set="number-of-rows"), limits=True
        ),
    )

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        """Check that every field option fits its column's type and has an effect. UserError SS4002, SS4003, SS4005."""
        make_generators(schema, options, parse_options(DatagenOptions, options).seed)

    def source(
        self, spec: SourceSpec, context: connector.ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> connector.SourceReader:
        options = _options(spec)
        return GeneratedReader(
            spec,
            context,
            own_share(self, spec, context) if splits is None else splits,
            make_generators(spec.schema, spec.options, options.seed),
            rate=options.rows_per_second,
            row_count=options.row_count,
        )

    def split_enumerator(
        self, spec: SourceSpec, context: connector.EnumeratorContext, state: dict[str, Any] | None
    ) -> connector.SplitEnumerator:
        block_rows = paced_block_rows(_options(spec).rows_per_second, context)
        return FixedSplits(Split.all(context.parallelism, block_rows), state)

    def input_bytes(self, spec: SourceSpec, files: Files) -> int:
        return (_options(spec).row_count or 0) * _CELL_BYTES * max(1, len(spec.columns))


def _options(spec: SourceSpec) -> DatagenOptions:
    return parse_options(DatagenOptions, spec.options)
