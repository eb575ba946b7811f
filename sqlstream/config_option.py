"""One option: its type, default, bounds and scope, and how the text of a value is read."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from sqlstream.errors import Span, UserError
from sqlstream.secrets import masked

_INTEGER_MAX = 2**63 - 1


class ConfigType(enum.Enum):
    BOOLEAN = "Boolean"
    INTEGER = "Integer"
    DOUBLE = "Double"
    DURATION = "Duration"
    MEMORY_SIZE = "MemorySize"
    STRING = "String"
    TIME_ZONE = "TimeZone"
    ENUM = "Enum"


class Scope(enum.Enum):
    """What an option belongs to, and so where it can be given. SET takes those of a session, a job and a client; the others
    are given where the cluster or the server starts."""

    SESSION = "SESSION"
    """Read while a statement is planned."""
    JOB = "JOB"
    """Goes with the job to the tasks."""
    CLIENT = "CLIENT"
    """Read by a client for how it shows results."""
    CLUSTER = "CLUSTER"
    """Read once, by a JobManager and its TaskManagers when they start."""
    SERVER = "SERVER"
    """Read once, by `sqlstream server` when it starts."""

    @property
    def is_settable(self) -> bool:
        """Whether SET and RESET take options of this scope."""
        return self not in (Scope.CLUSTER, Scope.SERVER)


class ConfigOption(msgspec.Struct, frozen=True):
    """One setting. `default` is text. `refused` are choices of Flink that are not built, `synonyms` other names of choices.
    `minimum` and `maximum` bound numbers (milliseconds for durations, bytes for sizes). `deprecated` are other keys of it."""

    key: str
    type: ConfigType
    default: str
    description: str
    choices: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: int | None = None
    scope: Scope = Scope.JOB
    synonyms: tuple[tuple[str, str], ...] = ()
    deprecated: tuple[str, ...] = ()

    def parse(self, text: str, span: Span | None = None) -> Any:
        """The value as bool, int, milliseconds, bytes or str. UserError SS4002 when it does not fit."""
        try:
            value = _PARSERS[self.type](text)
        except ValueError as error:
            raise UserError(
                "SS4002",
                f'option "{self.key}" takes {_TAKES[self.type]}, not "{masked(self.key, text)}"',
                span=span,
                hint=_EXAMPLES[self.type],
            ) from error
        if self.type is ConfigType.ENUM:
            meant = self.choice_meant(text) or text.strip()
            matches = [c for c in self.choices if c.lower() == meant.lower()]
            if not matches:
                is_known = text.strip().lower() in (c.lower() for c in self.refused)
                reason = ", which is not supported yet" if is_known else ""
                raise UserError(
                    "SS4002",
                    f'option "{self.key}" cannot be "{masked(self.key, text)}"{reason}',
                    span=span,
                    hint=self._hint_of_choices(),
                )
            return matches[0]
        self._check_bounds(value, text, span)
        return value

    def choice_meant(self, text: str) -> str:
        """The choice that has this other name; empty for its own name."""
        return next((choice for name, choice in self.synonyms if name.lower() == text.strip().lower()), "")

    def _hint_of_choices(self) -> str:
        if len(self.choices) == 1:
            return f"leave it {f'at {self.choices[0]}' if self.choices[0] else 'out'}: {self.description}"
        return f"choose one of {', '.join(self.choices)}"

    def _check_bounds(self, value: Any, text: str, span: Span | None) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        maximum = _INTEGER_MAX if self.maximum is None and isinstance(value, int) else self.maximum
        if self.minimum is not None and not value >= self.minimum:
            bound = f"at least {self.minimum}"
        elif maximum is not None and not value <= maximum:
            bound = f"at most {maximum}"
        else:
            return
        raise UserError(
            "SS4002",
            f'option "{self.key}" must be {bound}, not {masked(self.key, text)}',
            span=span,
            hint=hint_of_bounds(self.minimum, maximum, _UNITS.get(self.type, "")),
        )


def hint_of_bounds(minimum: float | None, maximum: float | None, unit: str = "") -> str:
    """What a number may be, of which one has gone beyond a bound.

    >>> hint_of_bounds(1, None, "ms"), hint_of_bounds(0, 100), hint_of_bounds(1, 2**63 - 1)
    ('give 1 ms or more', 'give a value from 0 to 100', 'give a value from 1 to 9223372036854775807')
    """
    low, high = (
        f"{bound:.15g} {unit}".strip() if isinstance(bound, float) else f"{bound} {unit}".strip()
        for bound in (minimum, maximum)
    )
    if minimum is None:
        return f"give {high} or less"
    return f"give {low} or more" if maximum is None else f"give a value from {low} to {high}"


_UNITS = {ConfigType.DURATION: "ms", ConfigType.MEMORY_SIZE: "bytes"}
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
    is_offset = re.fullmatch(r"(?:GMT|UTC)?[+-](?:(?:0\d|1[0-7]):[0-5]\d|18:00)", text) is not None
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
