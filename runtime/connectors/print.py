"""Connector `print`: a sink that writes one line per row to the user's terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlstream.changelog import ChangelogMode
from sqlstream.runtime.connectors.sink_only import SinkOnlyConnector
from sqlstream.spi.connector import (
    ConnectorContext,
    ConnectorDescriptor,
    OptionType,
    SinkWriter,
    Writing,
)
from sqlstream.spi.table_options import descriptors_of, option, parse_options

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.specs import SinkSpec
    from sqlstream.spi.committable import Committable


@dataclass(frozen=True, kw_only=True)
class PrintOptions:
    """The options of a table."""

    identifier: str | None = option("print-identifier", OptionType.STRING, "What every line begins with.")
    is_error: bool = option(
        "standard-error", OptionType.BOOLEAN, "Print to standard error instead of standard output.", "false"
    )
    sink_parallelism: int | None = option(
        "sink.parallelism", OptionType.INTEGER, "How many subtasks print.", minimum=1
    )


class Print(SinkOnlyConnector):
    """A sink without format; lines are Flink's: `id:subtask> +I[1, abc, null]`."""

    descriptor = ConnectorDescriptor(
        identifier="print",
        options=descriptors_of(PrintOptions),
        writing=Writing(mode=ChangelogMode.RETRACT, is_at_least_once=True),
    )

    def sink(self, spec: SinkSpec, mode: ChangelogMode, context: ConnectorContext) -> SinkWriter:
        return PrintWriter(spec, context)


def line_prefix(identifier: str, subtask: int, parallelism: int) -> str:
    """Flink's prefix of a row: the identifier, when there is one, and the number of the subtask, from 1, when there are
    several.

    >>> line_prefix("late", 1, 4)
    'late:2> '
    >>> line_prefix("", 0, 1)
    ''
    """
    number = str(subtask + 1) if parallelism > 1 else ""
    parts = ":".join(part for part in (identifier, number) if part)
    return f"{parts}> " if parts else ""


class PrintWriter:
    """Turn each batch into lines, column by column. No state."""

    def __init__(self, spec: SinkSpec, context: ConnectorContext) -> None:
        self._schema = spec.schema
        self._print_lines = context.print_lines
        options = parse_options(PrintOptions, spec.options)
        self._is_error = options.is_error
        self._prefix = line_prefix(options.identifier or "", context.subtask, context.parallelism)

    def write(self, batch: pa.RecordBatch) -> None:
        from sqlstream.runtime.connectors.print_lines import row_lines

        if batch.num_rows:
            self._print_lines(row_lines(batch, self._schema, self._prefix), self._is_error)

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        return []

    def abort(self) -> None:
        """Nothing to do: printed lines cannot be removed."""
