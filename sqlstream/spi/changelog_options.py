"""The options of a table of files that say how its rows make a changelog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlstream.changelog import ChangelogMode
from sqlstream.schema import Field, Schema
from sqlstream.spi.connector import ConnectorDescriptor, OptionType
from sqlstream.spi.format import FormatDescriptor
from sqlstream.spi.table_options import option, parse_options
from sqlstream.types import STRING

MODE = "changelog.mode"
OP_COLUMN = "changelog.op-column"

APPEND, RETRACT, UPSERT, COMPACTED = "append", "retract", "upsert", "compacted"

_MODES = {
    RETRACT: (ChangelogMode.RETRACT, ChangelogMode.RETRACT),
    UPSERT: (ChangelogMode.UPSERT, ChangelogMode.UPSERT),
    COMPACTED: (ChangelogMode.INSERT_ONLY, ChangelogMode.UPSERT),
}


@dataclass(frozen=True, kw_only=True)
class ChangelogOptions:
    mode: str = option(
        MODE,
        OptionType.ENUM,
        "What a row of the files is: a row of the table, a change of whole rows, a change by the primary key, or a row of the"
        " table that commits replace by its primary key.",
        APPEND,
        choices=(APPEND, RETRACT, UPSERT, COMPACTED),
    )
    op_column: str | None = option(
        OP_COLUMN,
        OptionType.STRING,
        "The column of the files that says what a row does: +I, -U, +U or -D. It is none of the table's, and the first one of"
        " files without names.",
    )

    @staticmethod
    def of(options: Mapping[str, str]) -> ChangelogOptions:
        return parse_options(ChangelogOptions, options)

    @property
    def modes(self) -> tuple[ChangelogMode, ChangelogMode] | None:
        """The changelog that a reader gives, and the widest that a writer takes; None for what the format says."""
        return _MODES.get(self.mode)


def sink_mode_of(descriptor: ConnectorDescriptor, options: Mapping[str, str]) -> ChangelogMode:
    """The widest changelog that a table of the connector takes, whatever its format does."""
    modes = ChangelogOptions.of(options).modes if descriptor.place.has_format else None
    return descriptor.writing.mode if modes is None else modes[1]


def writes_events(
    descriptor: ConnectorDescriptor, options: Mapping[str, str], format_mode: ChangelogMode
) -> bool:
    """Whether what is written are events of a format, whose widest changelog is `format_mode`."""
    if not descriptor.place.has_format or format_mode.is_insert_only:
        return False
    return ChangelogOptions.of(options).modes is None


def has_tombstones(options: Mapping[str, str]) -> bool:
    """Whether the rows of a source have no operations, so that one with nothing but its key deletes."""
    given = ChangelogOptions.of(options)
    return given.mode == UPSERT and given.op_column is None


def source_mode_of(written: FormatDescriptor, options: Mapping[str, str], primary_key: bool) -> ChangelogMode:
    """The changelog that a table of this format gives, which may have a primary key. Events of another database are read by it:
    what they say of the row before a change may lack everything but the key, and they may come again."""
    modes = ChangelogOptions.of(options).modes
    if modes is not None:
        return modes[0]
    return ChangelogMode.UPSERT if written.reads_events and primary_key else written.source_mode


def reads_events_by_key(options: Mapping[str, str], mode: ChangelogMode) -> bool:
    """Whether a source with this changelog is one of events that are read by the primary key."""
    return mode is ChangelogMode.UPSERT and ChangelogOptions.of(options).modes is None


def with_op_column(schema: Schema, op_column: str) -> Schema:
    """The columns of the files of a table with these columns."""
    return Schema((Field(op_column, STRING), *schema.fields))
