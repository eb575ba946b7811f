"""The settings that a user can SET, with type, default and bounds; keys and defaults are Flink's where Flink has them.

Unknown keys are refused. Keys that only tune Flink's own machinery are accepted with a note (sqlstream/flink_tuning.py).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from sqlstream.errors import Span, UserError, did_you_mean
from sqlstream.secrets import masked


class ConfigType(enum.Enum):
    BOOLEAN = "Boolean"
    INTEGER = "Integer"
    DOUBLE = "Double"
    DURATION = "Duration"
    MEMORY_SIZE = "MemorySize"
    STRING = "String"
    TIME_ZONE = "TimeZone"
    ENUM = "Enum"


class ConfigOption(msgspec.Struct, frozen=True):
    """One setting. `default` is text. `refused` are choices of Flink that are not built.
    `minimum` and `maximum` bound numbers (milliseconds for durations, bytes for sizes)."""

    key: str
    type: ConfigType
    default: str
    description: str
    choices: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None

    def parse(self, text: str, span: Span | None = None) -> Any:
        """The value as bool, int, milliseconds, bytes or str. UserError SS4002 when it does not fit."""
        said = masked(self.key, text)
        try:
            value = _PARSERS[self.type](text)
        except ValueError as error:
            raise UserError(
                "SS4002",
                f'option "{self.key}" takes {_TAKES[self.type]}, not "{said}"',
                span=span,
                hint=_EXAMPLES[self.type],
            ) from error
        if self.type is ConfigType.ENUM:
            matches = [c for c in self.choices if c.lower() == text.strip().lower()]
            if not matches:
                is_known = text.strip().lower() in (c.lower() for c in self.refused)
                reason = ", which is not supported yet" if is_known else ""
                raise UserError(
                    "SS4002",
                    f'option "{self.key}" cannot be "{said}"{reason}',
                    span=span,
                    hint=self._hint_of_choices(),
                )
            return matches[0]
        self._check_bounds(value, said, span)
        return value

    def _hint_of_choices(self) -> str:
        if len(self.choices) == 1:
            return f"leave it at {self.choices[0]}"
        return f"choose one of {', '.join(self.choices)}"

    def _check_bounds(self, value: Any, said: str, span: Span | None) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            return
        if self.minimum is not None and value < self.minimum:
            raise UserError(
                "SS4002", f'option "{self.key}" must be at least {self.minimum}, not {said}', span=span
            )
        if self.maximum is not None and value > self.maximum:
            raise UserError(
                "SS4002", f'option "{self.key}" must be at most {self.maximum}, not {said}', span=span
            )


_DURATION_UNITS_MS = {
    "ns": 1e-6, "nano": 1e-6, "nanos": 1e-6, "nanosecond": 1e-6, "nanoseconds": 1e-6,
    "us": 1e-3, "micro": 1e-3, "micros": 1e-3, "microsecond": 1e-3, "microseconds": 1e-3, "µs": 1e-3,
    "": 1, "ms": 1, "milli": 1, "millis": 1, "millisecond": 1, "milliseconds": 1,
    "s": 1000, "sec": 1000, "secs": 1000, "second": 1000, "seconds": 1000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
}  # fmt: skip
_SIZE_UNITS = {
    "": 1, "b": 1, "bytes": 1, "k": 2**10, "kb": 2**10, "kibibytes": 2**10, "m": 2**20, "mb": 2**20,
    "mebibytes": 2**20, "g": 2**30, "gb": 2**30, "gibibytes": 2**30, "t": 2**40, "tb": 2**40,
}  # fmt: skip


def parse_duration_ms(text: str) -> int:
    """Flink's durations: `10 s`, `3min`, `1 h`, a bare number is milliseconds. ValueError otherwise.

    >>> parse_duration_ms("3min")
    180000
    """
    return int(_number_with_unit(text, _DURATION_UNITS_MS))


def parse_memory_bytes(text: str) -> int:
    """Flink's sizes: `128 mb`, `1g`, a bare number is bytes. ValueError otherwise."""
    return int(_number_with_unit(text, _SIZE_UNITS))


def _number_with_unit(text: str, units: Mapping[str, float]) -> float:
    match = re.fullmatch(r"\s*(\d+)\s*([a-zA-Zµ]*)\s*", text)
    if match is None or match.group(2).lower() not in units:
        raise ValueError(text)
    return int(match.group(1)) * units[match.group(2).lower()]


def parse_boolean(text: str) -> bool:
    folded = text.strip().lower()
    if folded not in ("true", "false"):
        raise ValueError(text)
    return folded == "true"


def parse_time_zone(text: str) -> str:
    """A zone's name or an offset. ValueError for one that does not exist.

    >>> parse_time_zone("GMT+08:00")
    'GMT+08:00'
    """
    is_offset = re.fullmatch(r"(?:GMT|UTC)?[+-](?:0\d|1[0-8]):[0-5]\d", text) is not None
    if is_offset or text.upper() in ("UTC", "Z", "UTC+0"):
        return text
    import zoneinfo

    try:
        zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, OSError) as error:
        # A machine without the time zone database cannot check the name; the operators check it.
        if zoneinfo.available_timezones():
            raise ValueError(text) from error
    return text


_PARSERS: dict[ConfigType, Any] = {
    ConfigType.BOOLEAN: parse_boolean,
    ConfigType.INTEGER: int,
    ConfigType.DOUBLE: float,
    ConfigType.DURATION: parse_duration_ms,
    ConfigType.MEMORY_SIZE: parse_memory_bytes,
    ConfigType.STRING: str,
    ConfigType.TIME_ZONE: parse_time_zone,
    ConfigType.ENUM: str,
}
_TAKES: dict[ConfigType, str] = {
    ConfigType.BOOLEAN: "a boolean",
    ConfigType.INTEGER: "an integer",
    ConfigType.DOUBLE: "a number",
    ConfigType.DURATION: "a duration",
    ConfigType.MEMORY_SIZE: "a memory size",
    ConfigType.STRING: "a text",
    ConfigType.TIME_ZONE: "a time zone",
    ConfigType.ENUM: "one of its choices",
}
_EXAMPLES: dict[ConfigType, str] = {
    ConfigType.BOOLEAN: "write 'true' or 'false'",
    ConfigType.INTEGER: "write a whole number such as '4'",
    ConfigType.DOUBLE: "write a number such as '0.5'",
    ConfigType.DURATION: "write a number and a unit such as '200 ms', '10 s' or '1 h'",
    ConfigType.MEMORY_SIZE: "write a number and a unit such as '64 mb'",
    ConfigType.STRING: "",
    ConfigType.TIME_ZONE: "write a name such as 'Europe/Berlin' or an offset such as 'GMT+08:00'",
    ConfigType.ENUM: "",
}

_B, _I, _D, _M, _S, _E, _Z = (
    ConfigType.BOOLEAN, ConfigType.INTEGER, ConfigType.DURATION, ConfigType.MEMORY_SIZE,
    ConfigType.STRING, ConfigType.ENUM, ConfigType.TIME_ZONE,
)  # fmt: skip

OPTIONS: dict[str, ConfigOption] = {
    o.key: o
    for o in (
        ConfigOption("execution.runtime-mode", _E, "STREAMING", "Whether statements run as streams or in batch.",
                     choices=("STREAMING",), refused=("BATCH", "AUTOMATIC")),
        ConfigOption("parallelism.default", _I, "1", "Parallelism of every operator that nothing else decides.",
                     minimum=1, maximum=32768),
        ConfigOption("table.exec.resource.default-parallelism", _I, "-1",
                     "Parallelism of SQL operators; -1 takes parallelism.default.", minimum=-1, maximum=32768),
        ConfigOption("pipeline.name", _S, "", "Name of the next jobs; empty makes one from the statement."),
        ConfigOption("pipeline.max-parallelism", _I, "-1", "Number of key groups; -1 takes 128.", minimum=-1, maximum=32768),
        ConfigOption("pipeline.operator-chaining.enabled", _B, "true", "Run operators joined by FORWARD edges in one task."),
        ConfigOption("execution.batch-rows", _I, "65536", "Rows a source aims to put in one batch.",
                     minimum=1, maximum=1_048_576),
        ConfigOption("taskmanager.network.memory.max-buffered-bytes", _M, "32 mb",
                     "Bytes that may wait in one channel between two tasks.", minimum=65536),
        ConfigOption("taskmanager.memory.network.max", _M, "256 mb",
                     "Bytes that channels of one TaskManager may borrow together while their senders are ahead.", minimum=0),
        ConfigOption("table.exec.state.ttl", _D, "0 ms", "Forget keyed state this long after its last update; 0 keeps it.",
                     minimum=0),
        ConfigOption("table.exec.source.idle-timeout", _D, "0 ms",
                     "Turn a source idle after this long without rows; 0 never.", minimum=0),
        ConfigOption("table.optimizer.agg-phase-strategy", _E, "AUTO", "One or two phases for aggregations.",
                     choices=("AUTO", "ONE_PHASE", "TWO_PHASE")),
        ConfigOption("table.optimizer.reuse-sub-plan-enabled", _B, "true", "Run equal parts of a plan once."),
        ConfigOption("table.exec.sink.not-null-enforcer", _E, "ERROR", "What to do with a NULL for a NOT NULL column of a sink.",
                     choices=("ERROR", "DROP")),
        ConfigOption("table.exec.sink.require-on-conflict", _B, "true",
                     "Refuse an upsert whose key is not the sink's primary key."),
        ConfigOption("table.local-time-zone", _Z, "UTC", "Time zone of TIMESTAMP_LTZ values in text and in windows."),
        ConfigOption("table.display.max-column-width", _I, "30",
                     "Widest column of texts in a printed table, in force when it is set; by default the terminal decides.",
                     minimum=1),
        ConfigOption("heartbeat.interval", _D, "10 s", "Interval between heartbeat requests to each TaskManager.", minimum=10),
        ConfigOption("heartbeat.timeout", _D, "50 s", "A TaskManager silent for this long is lost.", minimum=20),
        ConfigOption("task.cancellation.timeout", _D, "3 min",
                     "A TaskManager whose task does not end this long after its cancellation ends itself.", minimum=1),
        ConfigOption("restart-strategy.type", _E, "none", "What to do when a task fails.", choices=("none",),
                     refused=("fixed-delay", "exponential-delay", "failure-rate")),
        ConfigOption("slot.request.timeout", _D, "5 min", "How long a job waits for slots before it fails.", minimum=1),
        ConfigOption("sqlstream.in-process.max-input-size", _M, "4 mb",
                     "A job over bounded tables of at most this many bytes runs in the process of the command, which is over "
                     "before child processes are up; 0 starts them for every job that reads a table.", minimum=0),
        ConfigOption("taskmanager.numberOfTaskSlots", _I, "1", "Slots of each TaskManager.", minimum=1, maximum=64),
        ConfigOption("slotmanager.number-of-slots.max", _I, "64",
                     "The most slots of all TaskManagers together; a job that needs more is refused.", minimum=1, maximum=4096),
        ConfigOption("slotmanager.number-of-slots.min", _I, "0",
                     "TaskManagers with this many slots start before a job needs them, and stay.", minimum=0, maximum=4096),
        ConfigOption("resourcemanager.taskmanager-timeout", _D, "30 s",
                     "A TaskManager that no job uses is ended after this long; the first ones stay.", minimum=1),
        ConfigOption("resourcemanager.taskmanager-registration.timeout", _D, "5 min",
                     "A TaskManager that has not registered this long after its start is ended and replaced.", minimum=1),
    )
}  # fmt: skip


def option(key: str, span: Span | None = None) -> ConfigOption:
    """The option of that key. UserError SS4001 with a suggestion when there is none."""
    from sqlstream.flink_tuning import TUNING

    found = OPTIONS.get(key) or TUNING.get(key)
    if found is None:
        raise UserError("SS4001", f'unknown option "{key}"', span=span, hint=did_you_mean(key, list(OPTIONS)))
    return found


def get(config: Mapping[str, str], key: str) -> Any:
    """The parsed value in force: the value that was SET, else the default."""
    return option(key).parse(config.get(key, OPTIONS[key].default))
