"""The options of the connectors `kafka` and `upsert-kafka`, with Flink's names, types and defaults."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlstream.errors import UserError, did_you_mean
from sqlstream.options.checkpointing_options import takes_checkpoints
from sqlstream.runtime.connectors import rejected_rows
from sqlstream.runtime.connectors.kafka.properties import (
    FILE_PROPERTIES,
    OF_COMMITS,
    PROPERTIES,
    settings_of,
)
from sqlstream.runtime.connectors.staged_rows import staging_option
from sqlstream.runtime.formats import format_of, format_options, validate_format
from sqlstream.schema import Field, Schema
from sqlstream.spi.connector import REJECTED_ROWS_PATH, OptionType
from sqlstream.spi.table_options import descriptors_of, option, parse_options

_STARTS = ("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets")
_ENDS = ("unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets")
_OFFSET = re.compile(r"partition:(\d+),offset:(\d+)")
_OFFSET_MAX = 2**63 - 1
_PARTITION_MAX = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class _Shared:
    """What both connectors have."""

    topic: str | None = option("topic", OptionType.STRING, "The topic, or several, separated by semicolons.")
    bootstrap_servers: str = option(
        f"{PROPERTIES}bootstrap.servers",
        OptionType.STRING,
        "Brokers, as host:port, separated by commas; the others are learnt from them.",
        is_required=True,
    )
    properties: str | None = option(
        f"{PROPERTIES}*",
        OptionType.STRING,
        "A property of Kafka's clients, as Kafka or librdkafka names it.",
    )
    group_id: str | None = option(
        f"{PROPERTIES}group.id",
        OptionType.STRING,
        "The consumer group, to which offsets are committed after each checkpoint, and when a table has ended.",
    )
    is_auto_commit: bool = option(
        OF_COMMITS[0],
        OptionType.BOOLEAN,
        "Whether a job that takes no checkpoints commits offsets to the group too.",
        "false",
    )
    auto_commit_interval_ms: int = option(
        OF_COMMITS[1],
        OptionType.INTEGER,
        "How often, in milliseconds, a job without checkpoints commits offsets.",
        "5000",
        minimum=0,
    )
    key_prefix: str = option(
        "key.fields-prefix",
        OptionType.STRING,
        "What the names of the key's columns begin with, and its fields do not; needs `EXCEPT_KEY`.",
        "",
    )
    fields_included: str = option(
        "value.fields-include",
        OptionType.ENUM,
        "Whether the value of a message has the key's columns too.",
        "ALL",
        choices=("ALL", "EXCEPT_KEY"),
    )
    delivery_guarantee: str = option(
        "sink.delivery-guarantee",
        OptionType.ENUM,
        "Whether rows may be lost, come again after a failure, or are there once for readers of what is committed.",
        "at-least-once",
        choices=("none", "at-least-once", "exactly-once"),
    )
    transactional_prefix: str | None = option(
        "sink.transactional-id-prefix",
        OptionType.STRING,
        "What the ids of transactions begin with; needed with `exactly-once`.",
    )
    staging_directory: str | None = staging_option()
    discovery_interval_ms: int = option(
        "scan.topic-partition-discovery.interval",
        OptionType.DURATION,
        "How often to look for new topics and partitions; 0 for never.",
        "5 min",
        minimum=0,
    )
    scan_parallelism: int | None = option(
        "scan.parallelism", OptionType.INTEGER, "How many subtasks read.", minimum=1
    )
    sink_parallelism: int | None = option(
        "sink.parallelism", OptionType.INTEGER, "How many subtasks write.", minimum=1
    )
    bounded_mode: str = option(
        "scan.bounded.mode", OptionType.ENUM, "Where a table ends.", "unbounded", choices=_ENDS
    )
    bounded_offsets: str | None = option(
        "scan.bounded.specific-offsets",
        OptionType.STRING,
        "The offsets to end before; partitions that are not named are not read.",
    )
    bounded_ms: int | None = option(
        "scan.bounded.timestamp-millis",
        OptionType.LONG,
        "The time to end before, in milliseconds since 1970.",
        minimum=0,
    )


@dataclass(frozen=True, kw_only=True)
class _Given(_Shared):
    """The options of a table of `kafka`, each by itself."""

    topic_pattern: str | None = option(
        "topic-pattern",
        OptionType.STRING,
        "A regular expression: the table has all topics whose whole name matches.",
    )
    startup_mode: str = option(
        "scan.startup.mode",
        OptionType.ENUM,
        "Where a job that goes on from no checkpoint begins.",
        "group-offsets",
        choices=_STARTS,
    )
    startup_offsets: str | None = option(
        "scan.startup.specific-offsets",
        OptionType.STRING,
        "The offsets to begin with: 'partition:0,offset:42;partition:1,offset:300'.",
    )
    startup_ms: int | None = option(
        "scan.startup.timestamp-millis",
        OptionType.LONG,
        "The time to begin with, in milliseconds since 1970.",
        minimum=0,
    )
    key_fields: str | None = option(
        "key.fields",
        OptionType.STRING,
        "The columns that the key of a message has, in the order of its format, separated by semicolons.",
    )
    partitioner: str = option(
        "sink.partitioner",
        OptionType.ENUM,
        "The partition of a message: by its key as Kafka does, and without one any; one for each writer; or any.",
        "default",
        choices=("default", "fixed", "round-robin"),
    )


@dataclass(frozen=True, kw_only=True)
class _OfUpsert(_Shared):
    """The options of a table of `upsert-kafka`."""

    buffer_rows: int = option(
        "sink.buffer-flush.max-rows",
        OptionType.INTEGER,
        "With so many rows a writer writes the last row of each key; needs `sink.buffer-flush.interval`, and 0 writes each row.",
        "0",
        minimum=0,
    )
    buffer_interval_ms: int = option(
        "sink.buffer-flush.interval",
        OptionType.DURATION,
        "So long rows wait at most for others of their keys; needs `sink.buffer-flush.max-rows`.",
        "0 s",
        minimum=0,
    )


@dataclass(frozen=True)
class FormatOptions:
    """A format of messages, the prefix of its options, and these without it."""

    identifier: str
    prefix: str
    options: dict[str, str]

    @staticmethod
    def of(side: str, options: Mapping[str, str]) -> FormatOptions | None:
        """Of `value` or `key`; that of values may be written without saying so."""
        for prefix in ("", "value.") if side == "value" else (f"{side}.",):
            identifier = options.get(f"{prefix}format")
            if identifier is not None:
                prefix += identifier
                given = format_options(prefix, dict(options))
                subject = format_of(identifier).descriptor.subject_option
                if subject and "topic" in options:
                    given.setdefault(subject, f"{options['topic']}-{side}")
                return FormatOptions(identifier, prefix, given)
        return None

    def check(self, schema: Schema) -> None:
        """UserError SS40xx for columns or options that the format cannot have."""
        validate_format(self.identifier, self.prefix, schema, self.options)


def file_options(options: Mapping[str, str]) -> list[str]:
    """Those of a table that name files: of the connector and of its formats."""
    forms = [form for side in ("value", "key") if (form := FormatOptions.of(side, options)) is not None]
    keys = [f"{f.prefix}.{key}" for f in forms for key in format_of(f.identifier).descriptor.path_options]
    return [key for key in (*FILE_OPTIONS, *keys) if options.get(key)]


@dataclass(frozen=True)
class KafkaOptions:
    """The options of a table, read. `offsets` and `ends` are by partition; `key_fields` are the names of columns.

    `is_upsert`: each message is the row of its key, from then on, or says that there is none. `buffer`: with how many rows, and
    after how many milliseconds a writer writes the last row of each key."""

    given: _Given
    settings: dict[str, str]
    value_format: FormatOptions
    key_format: FormatOptions | None = None
    key_fields: tuple[str, ...] = ()
    offsets: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    is_upsert: bool = False
    buffer: tuple[int, int] | None = None

    @staticmethod
    def of_upsert(options: Mapping[str, str], primary_key: tuple[str, ...] = ()) -> KafkaOptions:
        """Of `upsert-kafka`, whose keys are the primary key, and which is read from its begin. UserError as of `of`."""
        if "format" in options:
            hint = "name the formats of values and keys: 'value.format' = '…', 'key.format' = '…'"
            raise UserError(
                "SS4003", 'connector "upsert-kafka" has no option "format"', option="format", hint=hint
            )
        for side in ("value", "key"):
            if f"{side}.format" not in options:
                hint = f"add '{side}.format' = 'json'"
                raise UserError(
                    "SS4005", f'connector "upsert-kafka" needs the option "{side}.format"', hint=hint
                )
        fields = {"key.fields": ";".join(primary_key)} if primary_key else {}
        start = {"scan.startup.mode": "earliest-offset"}
        without_key = {k: v for k, v in options.items() if primary_key or not k.startswith("key.")}
        found = KafkaOptions.of({**without_key, **fields, **start})
        return dataclasses.replace(found, is_upsert=True, buffer=_buffer(options))

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are named; none with a pattern."""
        return tuple(_named(self.given.topic or ""))

    @property
    def place(self) -> str:
        """For messages."""
        return self.given.topic or f"/{self.given.topic_pattern}/"

    def value_schema(self, schema: Schema) -> Schema:
        """The columns of a table that are fields of values."""
        if self.given.fields_included == "ALL":
            return schema
        return Schema(tuple(f for f in schema.fields if f.name not in self.key_fields))

    def key_schema(self, schema: Schema) -> Schema:
        """The fields of keys, named as they are there."""
        chosen = schema.select(tuple(schema.index_of(c) for c in self.key_fields))
        return Schema(tuple(Field(self.key_name(f.name), f.type) for f in chosen.fields))

    def key_name(self, column: str) -> str:
        """The field of keys that a column is."""
        return column.removeprefix(self.given.key_prefix)

    @property
    def is_bounded(self) -> bool:
        return self.given.bounded_mode != "unbounded"

    def check_read(self) -> None:
        """UserError SS4005 for a table that can be written, and not read."""
        if self.given.startup_mode == "group-offsets":
            _require_group(self.given, "scan.startup.mode")
        if self.given.is_auto_commit and self.given.group_id is None:
            raise UserError(
                "SS4005",
                f"'{OF_COMMITS[0]}' = 'true' needs a consumer group",
                option=OF_COMMITS[0],
                hint=f"add '{PROPERTIES}group.id' = '…', or leave the option out",
            )

    def commits_with(self, config: Mapping[str, str]) -> bool:
        """Whether a job with these settings tells a group how far it has come."""
        return self.given.group_id is not None and (takes_checkpoints(config) or self.given.is_auto_commit)

    def auto_commit_ms(self, config: Mapping[str, str]) -> int | None:
        """How often its readers tell that by themselves, as it has no checkpoints; None for never."""
        is_by_itself = self.commits_with(config) and not takes_checkpoints(config)
        return self.given.auto_commit_interval_ms if is_by_itself else None

    @staticmethod
    def of(options: Mapping[str, str]) -> KafkaOptions:
        """UserError SS4002, SS4003, SS4005 for options that do not fit each other."""
        given = parse_options(_Given, options)
        if (given.topic is None) == (given.topic_pattern is None):
            code, said = ("SS4005", "needs") if given.topic is None else ("SS4003", "takes only")
            raise UserError(
                code,
                f'connector "kafka" {said} one of the options "topic" and "topic-pattern"',
                option="topic-pattern",
                hint="add 'topic' = '…'" if given.topic is None else "leave one of them out",
            )
        if given.topic_pattern is not None:
            _check_pattern(given.topic_pattern)
        if given.topic is not None:
            _check_topics(given.topic)
        if not given.bootstrap_servers.strip(" ,"):
            raise UserError(
                "SS4002",
                'option "properties.bootstrap.servers" is empty',
                option=f"{PROPERTIES}bootstrap.servers",
                hint="write the address of a broker, such as 'localhost:9092'",
            )
        _check_mode(given.startup_mode, "scan.startup", given.startup_offsets, given.startup_ms, options)
        _check_mode(given.bounded_mode, "scan.bounded", given.bounded_offsets, given.bounded_ms, options)
        settings = settings_of(options)
        # A table that is only written needs no place to begin.
        if "scan.startup.mode" in options and given.startup_mode == "group-offsets":
            _require_group(given, "scan.startup.mode")
        if given.bounded_mode == "group-offsets":
            _require_group(given, "scan.bounded.mode")
        is_exactly_once = given.delivery_guarantee == "exactly-once"
        if is_exactly_once and not given.transactional_prefix:
            raise UserError(
                "SS4005",
                "'sink.delivery-guarantee' = 'exactly-once' needs the option \"sink.transactional-id-prefix\"",
                option="sink.delivery-guarantee",
                hint="add 'sink.transactional-id-prefix' = '…', another one for each table that jobs write",
            )
        value_format = FormatOptions.of("value", options)
        assert value_format is not None
        key_format = FormatOptions.of("key", options)
        key_fields = _key_fields(given, key_format)
        return KafkaOptions(
            given,
            settings,
            value_format,
            key_format,
            key_fields,
            _offsets("scan.startup.specific-offsets", given.startup_offsets),
            _offsets("scan.bounded.specific-offsets", given.bounded_offsets),
        )


DESCRIPTORS = (*descriptors_of(_Given), *rejected_rows.REJECTED_MESSAGES_OPTIONS)
UPSERT_DESCRIPTORS = (*descriptors_of(_OfUpsert), *rejected_rows.REJECTED_MESSAGES_OPTIONS)

FILE_OPTIONS = (
    "sink.staging-directory",
    REJECTED_ROWS_PATH,
    *(f"{PROPERTIES}{name}" for name in FILE_PROPERTIES),
)
"""The options that name files and directories."""


def _key_fields(given: _Given, key_format: FormatOptions | None) -> tuple[str, ...]:
    """UserError SS4003, SS4005 for options of keys that do not fit each other."""
    names = tuple(n.strip() for n in (given.key_fields or "").split(";") if n.strip())
    if key_format is None:
        if names:
            hint = "add 'key.format' = '…', or leave 'key.fields' out"
            raise UserError("SS4005", "'key.fields' needs the format of keys", option="key.fields", hint=hint)
        return ()
    if not names:
        hint = "add 'key.fields' = '…', the columns that are the key"
        raise UserError("SS4005", "'key.format' needs the fields of keys", option="key.format", hint=hint)
    if given.key_prefix:
        if given.fields_included != "EXCEPT_KEY":
            raise UserError(
                "SS4005",
                "'key.fields-prefix' needs 'value.fields-include' = 'EXCEPT_KEY'",
                option="key.fields-prefix",
                hint="with a prefix the key has other names than the value",
            )
        other = next((n for n in names if not n.startswith(given.key_prefix)), None)
        if other is not None:
            raise UserError(
                "SS4002",
                f'the key field "{other}" does not begin with \'key.fields-prefix\' = "{given.key_prefix}"',
                option="key.fields",
                hint=f"name the column \"{given.key_prefix}{other}\", in the table and in 'key.fields'",
            )
    return names


def _buffer(options: Mapping[str, str]) -> tuple[int, int] | None:
    """UserError SS4005 for one of both options alone."""
    given = parse_options(_OfUpsert, options)
    keys = ("sink.buffer-flush.max-rows", "sink.buffer-flush.interval")
    values = (given.buffer_rows, given.buffer_interval_ms)
    if not any(values):
        return None
    if not all(values):
        there, absent = keys if values[0] else keys[::-1]
        hint = f"add '{absent}' = '{'1 s' if values[0] else '1000'}', or leave '{there}' out"
        raise UserError("SS4005", f"'{there}' needs the option \"{absent}\"", option=there, hint=hint)
    return values


def _require_group(given: _Given, key: str) -> None:
    if given.group_id is None:
        other = "earliest-offset" if key == "scan.startup.mode" else "latest-offset"
        raise UserError(
            "SS4005",
            f"'{key}' = 'group-offsets' needs a consumer group",
            option=key,
            hint=f"add '{PROPERTIES}group.id' = '…', or set '{key}' = '{other}'",
        )


_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def _named(text: str) -> list[str]:
    return [name for part in text.split(";") if (name := part.strip())]


def _check_topics(text: str) -> None:
    for name in _named(text) or [""]:
        if not _TOPIC.fullmatch(name) or name in (".", ".."):
            raise UserError(
                "SS4002",
                f'option "topic" has "{name}", which is no name of a topic',
                option="topic",
                hint="a topic is named by letters, digits, dots, dashes and underscores; several are separated by semicolons",
            )


def _check_pattern(text: str) -> None:
    try:
        re.compile(text)
    except re.error as error:
        raise UserError(
            "SS4002",
            f'option "topic-pattern" is no regular expression: {error}',
            option="topic-pattern",
            hint="write such as 'orders-.*'",
        ) from None


def _check_mode(
    mode: str, prefix: str, offsets: str | None, time_ms: int | None, options: Mapping[str, str]
) -> None:
    needs = {"specific-offsets": ("specific-offsets", offsets), "timestamp": ("timestamp-millis", time_ms)}
    for of_mode, (name, value) in needs.items():
        key = f"{prefix}.{name}"
        if mode == of_mode and value is None:
            raise UserError(
                "SS4005",
                f"'{prefix}.mode' = '{mode}' needs the option \"{key}\"",
                option=f"{prefix}.mode",
                hint=f"add '{key}' = '…'",
            )
        if mode != of_mode and key in options:
            raise UserError(
                "SS4003",
                f"option \"{key}\" has no use with '{prefix}.mode' = '{mode}'",
                option=key,
                hint=f"set '{prefix}.mode' = '{of_mode}', or leave the option out",
            )


def _offsets(key: str, text: str | None) -> dict[int, int]:
    """By partition. UserError SS4002 for another text, and for a partition that is named twice."""
    found: dict[int, int] = {}
    for part in (text or "").strip().rstrip(";").split(";") if text is not None else ():
        match = _OFFSET.fullmatch(re.sub(r"\s", "", part))
        partition, offset = map(int, match.groups()) if match else (-1, -1)
        if match is None or partition in found or partition > _PARTITION_MAX or offset > _OFFSET_MAX:
            raise UserError(
                "SS4002",
                f'option "{key}" takes an offset for each of some partitions, not "{part.strip()}"',
                option=key,
                hint="write 'partition:0,offset:42;partition:1,offset:300'",
            )
        found[partition] = offset
    return found


def check_schema(table: str, schema: Schema, options: KafkaOptions) -> None:
    """UserError SS4002, SS4006 for columns that the formats cannot carry, or key fields that the table does not have."""
    absent = next((c for c in options.key_fields if c not in schema.names), None)
    if absent is not None:
        raise UserError(
            "SS4002",
            f'option "key.fields" names "{absent}", which is no column of table "{table}"',
            option="key.fields",
            hint=did_you_mean(absent, list(schema.names)) or f"its columns are {', '.join(schema.names)}",
        )
    options.value_format.check(options.value_schema(schema))
    if options.key_format is not None:
        try:
            options.key_format.check(options.key_schema(schema))
        except UserError as error:
            error.column = error.column and options.given.key_prefix + error.column
            raise
