"""The options of a table, checked against the descriptors of its connector and format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn

import msgspec

from sqlstream import config
from sqlstream.catalog import CatalogTable, ColumnKind
from sqlstream.changelog import ChangelogMode
from sqlstream.config_option import hint_of_bounds
from sqlstream.effects import Effects
from sqlstream.errors import ErrorsAt, Span, UserError, choose_one_of, did_you_mean
from sqlstream.graph.stream_graph import SLOT_SHARING_GROUP
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.dialect.habits import option_hint
from sqlstream.planner.dialect.statements import Option, OptionPlaces
from sqlstream.secrets import masked
from sqlstream.specs.watermark import (
    ALIGNMENT_GROUP,
    ALIGNMENT_MAX_DRIFT,
    ALIGNMENT_UPDATE_INTERVAL,
    UPDATE_INTERVAL,
)
from sqlstream.spi.changelog_options import (
    APPEND,
    COMPACTED,
    MODE,
    OP_COLUMN,
    RETRACT,
    UPSERT,
    ChangelogOptions,
)
from sqlstream.spi.connector import (
    INTEGERS_MAX,
    READS,
    REJECTED_ROWS,
    ConnectorDescriptor,
    OptionDescriptor,
    OptionType,
)
from sqlstream.spi.format import FORMAT_KEYS, VALUE_PREFIX, FormatDescriptor, value_format
from sqlstream.types import STRING_ROOTS, LogicalType

_WATERMARK_OPTIONS = (
    OptionDescriptor(
        "scan.watermark.emit.strategy",
        OptionType.ENUM,
        "When a watermark takes effect.",
        default="on-periodic",
        choices=("on-periodic", "on-event"),
    ),
    OptionDescriptor(
        "scan.watermark.idle-timeout", OptionType.DURATION, "Turn idle after this long without rows."
    ),
    OptionDescriptor(
        ALIGNMENT_GROUP, OptionType.STRING, "Tables of a group wait for each other by their watermarks."
    ),
    OptionDescriptor(
        ALIGNMENT_MAX_DRIFT,
        OptionType.DURATION,
        "How far a table's watermark may be ahead of the lowest of its group.",
    ),
    OptionDescriptor(
        ALIGNMENT_UPDATE_INTERVAL,
        OptionType.DURATION,
        "How often readers say where they are, and are told how far they may go.",
        default=UPDATE_INTERVAL,
        minimum=1,
    ),
)

_SLOT_OPTIONS = (
    OptionDescriptor(
        SLOT_SHARING_GROUP,
        OptionType.STRING,
        "Its operators, and those behind it that read nothing else, run in slots apart from those of other groups.",
    ),
)


def written_options(options: tuple[Option, ...]) -> dict[str, str]:
    """Option list → dict. UserError SS4003 for a repeated key."""
    result: dict[str, str] = {}
    for written in options:
        if written.key in result:
            raise UserError(
                "SS4003", f'option "{written.key}" is given twice', span=written.key_span, hint="give it once"
            )
        result[written.key] = written.value
    return result


def find_connector(
    options: Mapping[str, str], context: BindContext, span: Span | None
) -> ConnectorDescriptor:
    """The descriptor of the option 'connector'. UserError SS4004 when it is unknown, SS4005 when it is
    missing."""
    identifier = options.get("connector")
    with ErrorsAt(span):  # a package that cannot be used
        found = context.connectors.get(identifier) if identifier is not None else None
    if found is not None and not found.is_internal:
        return found
    named = sorted(i for i, d in context.connectors.items() if not d.is_internal)
    choice = f"one of {', '.join(named)}"
    if identifier is None:
        raise UserError(
            "SS4005",
            "the table names no connector",
            span=span,
            hint=f"add 'connector' = '…' to WITH (…), {choice}",
        )
    hint = did_you_mean(identifier, named) or f"choose {choice}"
    raise UserError("SS4004", f'unknown connector "{identifier}"', span=span, hint=hint)


def check_table_options(
    options: tuple[Option, ...],
    columns: tuple[str, ...],
    context: BindContext,
    span: Span | None,
    computed: tuple[str, ...] = (),
) -> ConnectorDescriptor:
    """Check the WITH clause of a table with these columns, and return its connector. UserError SS400x."""
    values = written_options(options)
    spans = OptionPlaces.of(options, None if options else span)
    if "connector" not in values:
        hints = {k: option_hint(k, ("connector",)) or did_you_mean(k, ["connector"]) for k in values}
        misspelled = next((k for k, hint in hints.items() if hint.count("connector")), "")
        if misspelled:
            message, place = f'unknown option "{misspelled}"', spans.keys.get(misspelled)
            raise UserError("SS4003", message, span=place, hint=hints[misspelled])
    descriptor = find_connector(values, context, spans.otherwise)
    _check(values, descriptor, columns, context, spans, computed)
    return descriptor


def check_hints(
    table: CatalogTable, hints: tuple[Option, ...], context: BindContext, *, is_stored: bool = False
) -> dict[str, str]:
    """The options of an OPTIONS hint, checked with those of their table. `is_stored`: the hint is that of a view, whose creator
    was permitted to give it. UserError SS2037 where the context permits none."""
    if not hints:
        return {}
    if not is_stored:
        # A hint could point the table, with the passwords of its options, to another file or server.
        context.permit.require(Effects(hinted=frozenset({table.path.name})), hints[0].key_span)
    if not config.get(context.config, "table.dynamic-table-options.enabled"):
        hint = "write the options into the table, or SET 'table.dynamic-table-options.enabled' = 'true'"
        raise UserError("SS4003", "OPTIONS hints are switched off", span=hints[0].key_span, hint=hint)
    overrides = written_options(hints)
    spans = OptionPlaces.of(hints, hints[0].key_span)
    if "connector" in overrides:
        raise UserError(
            "SS4003",
            "a hint cannot change the connector",
            span=spans.keys["connector"],
            hint="declare another table with that connector",
        )
    if table.options.get(READS) == REJECTED_ROWS and (fixed := overrides.keys() & {READS, "format"}):
        key = min(fixed)
        raise UserError(
            "SS4003",
            f'a hint cannot change the option "{key}" of a table of rejected rows',
            span=spans.keys[key],
            hint="read the table itself, or its files by another table of connector filesystem",
        )
    merged = {**table.options, **overrides}
    descriptor = find_connector(merged, context, spans.otherwise)
    _check(merged, descriptor, table.physical_schema().names, context, spans, _computed_columns(table))
    with spans.errors():
        context.check_table(msgspec.structs.replace(table, options=merged))
        check_table_changes(table, merged, context)
    return overrides


def _computed_columns(table: CatalogTable) -> tuple[str, ...]:
    return tuple(c.name for c in table.columns if c.kind is ColumnKind.COMPUTED)


def check_altered_options(
    table: CatalogTable,
    written: tuple[Option, ...],
    reset: Mapping[str, Span],
    context: BindContext,
    places: OptionPlaces,
) -> dict[str, str]:
    """The options of a table after some are set and others reset, checked as in CREATE TABLE. Its connector stays."""
    changed = written_options(written)
    connector = places.keys.get("connector") or reset.get("connector")
    if connector is not None:
        raise UserError(
            "SS4003",
            "the connector of a table cannot be altered",
            span=connector,
            hint="drop the table, and create it with the other connector",
        )
    absent = next((key for key in reset if key not in table.options), None)
    if absent is not None:
        raise UserError(
            "SS4003",
            f'table "{table.path.name}" has no option "{absent}"',
            span=reset[absent],
            hint=did_you_mean(absent, list(table.options))
            or "leave it out: SHOW CREATE TABLE lists the options",
        )
    after = {k: v for k, v in {**table.options, **changed}.items() if k not in reset}
    descriptor = find_connector(after, context, places.otherwise)
    _check(after, descriptor, table.physical_schema().names, context, places, _computed_columns(table))
    with places.errors():
        check_table_changes(table, after, context)
    return after


def is_bounded(descriptor: ConnectorDescriptor, options: dict[str, str]) -> bool:
    return descriptor.reading.boundedness.is_bounded(options)


def _check(
    values: dict[str, str],
    descriptor: ConnectorDescriptor,
    columns: tuple[str, ...],
    context: BindContext,
    spans: OptionPlaces,
    computed: tuple[str, ...],
) -> None:
    known = _known_options(values, descriptor, context, spans)
    for key, value in values.items():
        if key == "connector" or key in format_keys(descriptor):
            continue
        option = _find_option(key, known, columns) or _find_option(
            key, [o for o in known if o.takes_computed], computed
        )
        if option is None:
            _fail_unknown(key, known, descriptor, columns, spans)
        check_value(key, value, option, spans.values.get(key) or spans.otherwise)
    for option in known:
        if option.is_required and "#" not in option.key and option.key not in values:
            raise UserError(
                "SS4005",
                f'connector "{descriptor.identifier}" needs the option "{option.key}"',
                span=spans.otherwise,
                hint=f"add '{option.key}' = '…': {_as_clause(option.description)}",
            )
    _check_alignment(values, spans)
    if not values.get(SLOT_SHARING_GROUP, "x").strip():
        raise UserError(
            "SS4002",
            f'option "{SLOT_SHARING_GROUP}" is empty',
            span=spans.values.get(SLOT_SHARING_GROUP) or spans.otherwise,
            hint="give the name of a group, as 'slow'",
        )


def _check_alignment(values: dict[str, str], spans: OptionPlaces) -> None:
    given = [
        key for key in (ALIGNMENT_GROUP, ALIGNMENT_MAX_DRIFT, ALIGNMENT_UPDATE_INTERVAL) if key in values
    ]
    for key in (ALIGNMENT_GROUP, ALIGNMENT_MAX_DRIFT):
        if given and key not in given:
            raise UserError(
                "SS4005",
                f'option "{given[0]}" needs the option "{key}"',
                span=spans.keys.get(given[0]) or spans.otherwise,
                hint=f"add '{key}' = '…'",
            )
    if given and not values[ALIGNMENT_GROUP].strip():
        raise UserError(
            "SS4002",
            f'option "{ALIGNMENT_GROUP}" is empty',
            span=spans.values.get(ALIGNMENT_GROUP) or spans.otherwise,
            hint="give the name that the tables of the group share",
        )


def _as_clause(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def own_options(descriptor: ConnectorDescriptor) -> list[OptionDescriptor]:
    """The options of a connector's tables, except `connector`, `format` and those of the format."""
    return [*descriptor.options, *(_WATERMARK_OPTIONS if descriptor.is_source else ()), *_SLOT_OPTIONS]


def _known_options(
    values: dict[str, str], descriptor: ConnectorDescriptor, context: BindContext, spans: OptionPlaces
) -> list[OptionDescriptor]:
    known = own_options(descriptor)
    for key, form in _find_formats(values, descriptor, context, spans).items():
        prefix = key.removesuffix("format")
        known += [msgspec.structs.replace(o, key=f"{prefix}{form.identifier}.{o.key}") for o in form.options]
    return known


def format_keys(descriptor: ConnectorDescriptor) -> tuple[str, ...]:
    """The options that name a format of the connector's tables."""
    if descriptor.place.has_keys:
        return FORMAT_KEYS
    return FORMAT_KEYS[:1] if descriptor.place.has_format else ()


def written_format(
    descriptor: ConnectorDescriptor, options: Mapping[str, str], context: BindContext
) -> FormatDescriptor | None:
    """The format of a table whose options have been checked, with the changelogs of the table; None for a connector without
    formats."""
    found = context.formats.get(value_format(options)) if descriptor.place.has_format else None
    modes = ChangelogOptions.of(options).modes
    if found is None or modes is None:
        return found
    return msgspec.structs.replace(found, source_mode=modes[0], sink_mode=modes[1])


def metadata_of(
    descriptor: ConnectorDescriptor, options: Mapping[str, str], context: BindContext
) -> dict[str, LogicalType]:
    """The metadata keys of a table with these options, and their types: those of the connector and of the format, which may be
    written with the prefix `value.` (Flink: of a format of a connector's values)."""
    written = context.formats.get(value_format(options)) if descriptor.place.has_format else None
    if written is None or not written.metadata:
        return descriptor.reading.metadata
    prefixed = {f"{VALUE_PREFIX}{key}": t for key, t in written.metadata.items()}
    return {**descriptor.reading.metadata, **written.metadata, **prefixed}


def check_table_changes(table: CatalogTable, options: Mapping[str, str], context: BindContext) -> None:
    """UserError SS4003, SS4005, without a position, for a table whose options of a changelog do not go together
    (`check_changes`), and for one that needs a primary key."""
    descriptor = context.connectors.get(options.get("connector", ""))
    if descriptor is not None and descriptor.reading.mode is ChangelogMode.UPSERT and not table.primary_key:
        raise UserError(
            "SS4005",
            f'table "{table.path.name}" of connector "{descriptor.identifier}" needs a primary key: its rows replace each other',
            option="connector",
            hint="declare PRIMARY KEY (…) NOT ENFORCED in the table",
        )
    written = context.formats.get(value_format(options))
    check_changes(table, options, written)


def _find_formats(
    values: dict[str, str], descriptor: ConnectorDescriptor, context: BindContext, spans: OptionPlaces
) -> dict[str, FormatDescriptor]:
    """By the options that name them."""
    keys = format_keys(descriptor)
    if not keys:
        if "format" in values:
            raise UserError(
                "SS4003",
                f'connector "{descriptor.identifier}" takes no format',
                span=spans.keys.get("format") or spans.otherwise,
                hint="remove the option 'format'",
            )
        return {}
    unknown = next((key for key in FORMAT_KEYS if key in values and key not in keys), None)
    if unknown is not None:
        raise UserError(
            "SS4003",
            f'connector "{descriptor.identifier}" has no option "{unknown}"',
            span=spans.keys.get(unknown) or spans.otherwise,
            hint="write 'format' = '…'",
        )
    if not any(key in values for key in keys[:2]):
        raise UserError(
            "SS4005",
            f'connector "{descriptor.identifier}" needs a format',
            span=spans.otherwise,
            hint=f"add 'format' = '…', one of {', '.join(formats_of(descriptor, context))}",
        )
    if all(key in values for key in keys[:2]) and len(keys) > 1:
        raise UserError(
            "SS4003",
            f'"{keys[0]}" and "{keys[1]}" both name the format of the values',
            span=spans.keys.get(keys[1]) or spans.otherwise,
            hint=f"leave '{keys[0]}' out",
        )
    return {key: _find_format(key, values[key], descriptor, context, spans) for key in keys if key in values}


def formats_of(descriptor: ConnectorDescriptor, context: BindContext, key: str = FORMAT_KEYS[0]) -> list[str]:
    """Those that the connector can have as the value of the option `key`."""
    has_messages, has_rows = descriptor.place.has_messages, _has_whole_rows(descriptor, key)
    return sorted(
        i
        for i, f in context.formats.items()
        if (f.has_messages if has_messages else f.has_files) and not (has_rows and f.reads_events)
    )


def _has_whole_rows(descriptor: ConnectorDescriptor, key: str) -> bool:
    """Whether what a format reads cannot be changes: keys, and rows that replace each other."""
    return key == FORMAT_KEYS[2] or descriptor.reading.mode is ChangelogMode.UPSERT


def _find_format(
    key: str, identifier: str, descriptor: ConnectorDescriptor, context: BindContext, spans: OptionPlaces
) -> FormatDescriptor:
    span = spans.values.get(key) or spans.otherwise
    with ErrorsAt(span):  # a package that cannot be used
        found = context.formats.get(identifier)
    if found is None:
        hint = choose_one_of(identifier, formats_of(descriptor, context, key))
        raise UserError("SS4004", f'unknown format "{identifier}"', span=span, hint=hint)
    needs_messages = descriptor.place.has_messages
    if not (found.has_messages if needs_messages else found.has_files):
        of, has = ("files", "messages") if needs_messages else ("messages", "files")
        raise UserError(
            "SS4003",
            f'format "{identifier}" is one of {of}, and connector "{descriptor.identifier}" has {has}',
            span=span,
            hint=choose_one_of("", formats_of(descriptor, context, key)),
        )
    is_by_key = descriptor.reading.mode is ChangelogMode.UPSERT
    if found.reads_events and _has_whole_rows(descriptor, key):
        what = f'rows of connector "{descriptor.identifier}"' if is_by_key else "keys"
        raise UserError(
            "SS4003",
            f'format "{identifier}" is one of changes, and {what} are no changes',
            span=span,
            hint="name the format of whole rows, such as json or avro",
        )
    return found


def _find_option(
    key: str, known: list[OptionDescriptor], columns: tuple[str, ...]
) -> OptionDescriptor | None:
    # An option of this name comes before all of a prefix.
    for option in sorted(known, key=lambda option: option.key.endswith("*")):
        if option.key == key:
            return option
        if option.key.endswith("*") and key.startswith(option.key[:-1]) and len(key) >= len(option.key):
            return option
        if "#" in option.key:
            match = re.fullmatch(re.escape(option.key).replace(r"\#", "(.+)"), key)
            # A path such as `fields.a.element.min` addresses a part of column `a`.
            if match and (match.group(1) in columns or match.group(1).split(".")[0] in columns):
                return option
    return None


def _fail_unknown(
    key: str,
    known: list[OptionDescriptor],
    descriptor: ConnectorDescriptor,
    columns: tuple[str, ...],
    spans: OptionPlaces,
) -> NoReturn:
    keys = [o.key.replace("#", c) for o in known for c in (columns if "#" in o.key else ("",))]
    raise UserError(
        "SS4003",
        f'unknown option "{key}" of connector "{descriptor.identifier}"',
        span=spans.keys.get(key) or spans.otherwise,
        detail=f"the options are {', '.join(sorted(o.key for o in known))}"
        if known
        else "it takes no options",
        hint=option_hint(key, {"connector", "format", *keys}) or did_you_mean(key, keys),
    )


def check_value(key: str, text: str, option: OptionDescriptor, span: Span | None) -> None:
    """UserError SS4002 for a text that is no value of the option."""
    said = masked(key, text)
    if option.type is OptionType.ENUM and text.lower() not in [c.lower() for c in option.choices]:
        hint = choose_one_of(text, option.choices)
        raise UserError("SS4002", f'option "{key}" cannot be "{said}"', span=span, hint=hint)
    try:
        value = option.parse(text)
    except ValueError as error:
        raise UserError(
            "SS4002",
            f'option "{key}" takes {_TAKES[option.type]}, not "{said}"',
            span=span,
            hint=_EXAMPLES.get(option.type, ""),
        ) from error
    largest = INTEGERS_MAX.get(option.type)
    if largest is not None and not -largest - 1 <= value <= largest:
        bound = f"at most {largest}" if value > 0 else f"at least {-largest - 1}"
    elif option.minimum is not None and value < option.minimum:
        bound = f"at least {option.minimum:g}"
    else:
        return
    hint = hint_of_bounds(option.minimum, largest, _UNITS.get(option.type, ""))
    raise UserError("SS4002", f'option "{key}" must be {bound}, not {said}', span=span, hint=hint)


_TAKES = {
    OptionType.STRING: "a text",
    OptionType.INTEGER: "an integer",
    OptionType.LONG: "an integer",
    OptionType.DOUBLE: "a number",
    OptionType.BOOLEAN: "a boolean",
    OptionType.DURATION: "a duration",
    OptionType.MEMORY_SIZE: "a memory size",
    OptionType.ENUM: "one of its choices",
}
_UNITS = {OptionType.DURATION: "ms", OptionType.MEMORY_SIZE: "bytes"}
_EXAMPLES = {
    OptionType.INTEGER: "write a whole number such as '4'",
    OptionType.LONG: "write a whole number such as '1000'",
    OptionType.DOUBLE: "write a number such as '0.5'",
    OptionType.BOOLEAN: "write 'true' or 'false'",
    OptionType.DURATION: "write a number and a unit such as '200 ms', '10 s' or '1 h'",
    OptionType.MEMORY_SIZE: "write a number and a unit such as '64 mb'",
}


# Tables whose options say that their rows make a changelog: what must go together.


_OF_ADDED_FILES = (
    "sink.rolling-policy.",
    "sink.partition-commit.",
    "auto-compaction",
    "compaction.",
    "partition.time-extractor.",
)
"""Options of files that stay as they are once they are committed."""


def check_changes(table: CatalogTable, options: Mapping[str, str], written: FormatDescriptor | None) -> None:
    """UserError SS4003 for options of a changelog that do not go with each other, the format or the table. `written` is the
    format as it is without them."""
    if written is None or (MODE not in options and OP_COLUMN not in options):
        return
    given, name = ChangelogOptions.of(options), table.path.name
    if not written.source_mode.is_insert_only and (given.mode != APPEND or given.op_column is not None):
        key = MODE if given.mode != APPEND else OP_COLUMN
        raise UserError(
            "SS4003",
            f'option "{key}" of table "{name}" has no use: format "{written.identifier}" says what each row does',
            option=key,
            hint="leave the option out, or choose format csv, json or parquet",
        )
    if written.identifier == "raw" and given.mode != APPEND:
        raise UserError(
            "SS4003",
            f'format "raw" of table "{name}" has one column, and no room for changes',
            option=MODE,
            hint="choose format csv, json or parquet",
        )
    if given.op_column is not None and given.mode in (APPEND, COMPACTED):
        raise UserError(
            "SS4003",
            f'option "{OP_COLUMN}" of table "{name}" has no use with "{MODE}" = "{given.mode}"',
            option=OP_COLUMN,
            hint=f"add '{MODE}' = 'retract' for changes of whole rows, or 'upsert' for changes by the primary key",
        )
    if given.mode == RETRACT and given.op_column is None:
        raise UserError(
            "SS4005",
            f'table "{name}" needs the option "{OP_COLUMN}": its rows are changes',
            option=MODE,
            hint=f"add '{OP_COLUMN}' = 'op', the column of the files that has +I, -U, +U or -D",
        )
    if given.op_column is not None and given.op_column in table.physical_schema().names:
        raise UserError(
            "SS4003",
            f'column "{given.op_column}" of table "{name}" is also its "{OP_COLUMN}"',
            option=OP_COLUMN,
            hint="leave the column out of the table: it says what the row does, and is none of its values",
        )
    if given.mode not in (APPEND, RETRACT):
        _check_key(table, given)
    if given.mode == COMPACTED:
        _check_replaced(table, options)
    if given.mode == UPSERT and given.op_column is None and written.identifier == "csv":
        _check_nulls(table, options)


def _check_key(table: CatalogTable, given: ChangelogOptions) -> None:
    name = table.path.name
    if not table.primary_key:
        raise UserError(
            "SS4003",
            f'"{MODE}" = "{given.mode}" of table "{name}" goes by the primary key, and the table has none',
            option=MODE,
            hint="declare PRIMARY KEY (…) NOT ENFORCED in the table",
        )
    outside = [key for key in table.partition_keys if key not in table.primary_key]
    if outside:
        raise UserError(
            "SS4003",
            f'table "{name}" is partitioned by "{outside[0]}", which is not in its primary key: a row that moves to'
            " another partition would stay in the one before, too",
            option=MODE,
            hint="add the column to the primary key, or partition by columns of the key",
        )
    values = [c for c in table.physical_schema().names if c not in table.primary_key]
    if given.op_column is None and given.mode != COMPACTED and not values:
        raise UserError(
            "SS4005",
            f'table "{name}" needs the option "{OP_COLUMN}": without other columns than its key a row cannot say that it'
            " deletes",
            option=MODE,
            hint=f"add '{OP_COLUMN}' = 'op'",
        )


def _check_replaced(table: CatalogTable, options: Mapping[str, str]) -> None:
    for key in options:
        if key == "source.monitor-interval" or key.startswith(_OF_ADDED_FILES):
            raise UserError(
                "SS4003",
                f'option "{key}" of table "{table.path.name}" has no use with "{MODE}" = "compacted", whose files are replaced by'
                " each commit",
                option=key,
                hint="leave the option out",
            )


def _check_nulls(table: CatalogTable, options: Mapping[str, str]) -> None:
    keeps_nulls = (
        "csv.null-literal" in options or options.get("csv.empty-string-as-null", "").lower() == "true"
    )
    schema = table.physical_schema()
    texts = [f.name for f in schema.fields if f.name not in table.primary_key and f.type.root in STRING_ROOTS]
    if texts and not keeps_nulls:
        raise UserError(
            "SS4005",
            f'table "{table.path.name}" cannot read a row that deletes: in format csv the empty value of column'
            f' "{texts[0]}" is a text, not NULL',
            option=MODE,
            hint=f"add '{OP_COLUMN}' = 'op', or 'csv.null-literal' = '…'",
        )
