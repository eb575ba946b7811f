"""The options that every connector with lookups shares (Flink: LookupOptions), and what they say once read."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from sqlstream.errors import UserError
from sqlstream.spi.connector import OptionType
from sqlstream.spi.table_options import descriptors_of, option, parse_options

MAX_RETRIES_DEFAULT = 3
PARTIAL_ROWS_MAX_DEFAULT = 1_000_000
FULL_ROWS_MAX_DEFAULT = 10_000_000
_DAY_MS = 86_400_000


class CacheKind(enum.Enum):
    """What a lookup join keeps of the rows that it has looked up: none, some by key, or the whole table."""

    NONE = "NONE"
    PARTIAL = "PARTIAL"
    FULL = "FULL"


class ReloadStrategy(enum.Enum):
    PERIODIC = "PERIODIC"
    TIMED = "TIMED"


_PARTIAL = "lookup.partial-cache."
_FULL = "lookup.full-cache."


@dataclass(frozen=True, kw_only=True)
class _Given:
    """The options of a table, each by itself."""

    cache: str = option(
        "lookup.cache",
        OptionType.ENUM,
        "What a lookup join keeps: nothing, the rows of the keys that it has looked up, or the whole table.",
        "NONE",
        choices=("NONE", "PARTIAL", "FULL"),
    )
    partial_rows_max: int = option(
        f"{_PARTIAL}max-rows",
        OptionType.LONG,
        "Rows that a PARTIAL cache holds, where a key without rows counts as one; the keys used longest ago go first.",
        str(PARTIAL_ROWS_MAX_DEFAULT),
        minimum=1,
    )
    expire_after_write_ms: int | None = option(
        f"{_PARTIAL}expire-after-write",
        OptionType.DURATION,
        "Look a key up again this long after it was.",
        minimum=1,
    )
    expire_after_access_ms: int | None = option(
        f"{_PARTIAL}expire-after-access",
        OptionType.DURATION,
        "Forget a key this long after a row last asked for it.",
        minimum=1,
    )
    keeps_missing_keys: bool = option(
        f"{_PARTIAL}cache-missing-key",
        OptionType.BOOLEAN,
        "Whether a PARTIAL cache also keeps that a key has no row.",
        "true",
    )
    full_rows_max: int = option(
        f"{_FULL}max-rows",
        OptionType.LONG,
        "The most rows of a table that a FULL cache takes; a larger one fails the job.",
        str(FULL_ROWS_MAX_DEFAULT),
        minimum=1,
    )
    reload_strategy: str = option(
        f"{_FULL}reload-strategy",
        OptionType.ENUM,
        "How a FULL cache is loaded again: at an interval, or at a time of the day. Without either it is loaded once.",
        "PERIODIC",
        choices=("PERIODIC", "TIMED"),
    )
    reload_interval_ms: int | None = option(
        f"{_FULL}periodic-reload.interval",
        OptionType.DURATION,
        "How often a FULL cache is loaded again.",
        minimum=1,
    )
    reload_mode: str = option(
        f"{_FULL}periodic-reload.schedule-mode",
        OptionType.ENUM,
        "Whether the interval begins at the end of a load or at its begin.",
        "FIXED_DELAY",
        choices=("FIXED_DELAY", "FIXED_RATE"),
    )
    reload_time: str | None = option(
        f"{_FULL}timed-reload.iso-time",
        OptionType.STRING,
        "When a TIMED reload is due, as 10:15, 10:15:30Z or 10:15+02:00; UTC unless it says otherwise.",
    )
    reload_days: int = option(
        f"{_FULL}timed-reload.interval-in-days",
        OptionType.INTEGER,
        "Days from one TIMED reload to the next.",
        "1",
        minimum=1,
    )
    max_retries: int = option(
        "lookup.max-retries",
        OptionType.INTEGER,
        "How often a lookup that failed, such as for a locked file, is tried again.",
        str(MAX_RETRIES_DEFAULT),
        minimum=0,
    )


LOOKUP_OPTIONS = descriptors_of(_Given)


@dataclass(frozen=True, kw_only=True)
class _Earlier:
    """The names that options of a PARTIAL cache had before Flink 1.16, and still have in connector jdbc."""

    rows_max: int | None = option(
        "lookup.cache.max-rows",
        OptionType.LONG,
        f"The same as `{_PARTIAL}max-rows`, and a PARTIAL cache.",
        minimum=1,
    )
    ttl_ms: int | None = option(
        "lookup.cache.ttl",
        OptionType.DURATION,
        f"The same as `{_PARTIAL}expire-after-write`, and a PARTIAL cache.",
        minimum=1,
    )
    keeps_missing_keys: bool | None = option(
        "lookup.cache.caching-missing-key",
        OptionType.BOOLEAN,
        f"The same as `{_PARTIAL}cache-missing-key`, and a PARTIAL cache.",
    )


EARLIER_LOOKUP_OPTIONS = descriptors_of(_Earlier)
_TODAY = {
    "lookup.cache.max-rows": f"{_PARTIAL}max-rows",
    "lookup.cache.ttl": f"{_PARTIAL}expire-after-write",
    "lookup.cache.caching-missing-key": f"{_PARTIAL}cache-missing-key",
}


def _as_named_today(options: Mapping[str, str]) -> Mapping[str, str]:
    """UserError SS4003 for an option that is given by both of its names."""
    earlier = {key: name for key, name in _TODAY.items() if key in options}
    if not earlier:
        return options
    doubled = next((key for key, name in earlier.items() if name in options), None)
    if doubled is not None:
        raise UserError(
            "SS4003",
            f'option "{doubled}" is given twice, by two names',
            option=doubled,
            hint=f"leave it out, and keep '{earlier[doubled]}'",
        )
    renamed = {earlier.get(key, key): value for key, value in options.items()}
    return {"lookup.cache": CacheKind.PARTIAL.value, **renamed}


class Reload(msgspec.Struct, frozen=True):
    """When a FULL cache is loaded again: `interval_ms` after a load, or (`time_of_day_ms` ≥ 0) at a time of the day, UTC,
    every `interval_ms` of whole days."""

    interval_ms: int
    is_fixed_rate: bool = False
    time_of_day_ms: int = -1

    def next_ms(self, began_ms: int, ended_ms: int) -> int:
        """When the next load is due after one that took from `began_ms` to `ended_ms`."""
        if self.time_of_day_ms < 0:
            return (began_ms if self.is_fixed_rate else ended_ms) + self.interval_ms
        due_ms = began_ms - began_ms % _DAY_MS + self.time_of_day_ms
        due_ms += _DAY_MS if due_ms <= began_ms else 0
        return due_ms + self.interval_ms - _DAY_MS


class LookupOptions(msgspec.Struct, frozen=True):
    """The lookup options of a table, read. 0 means that entries do not expire."""

    cache: CacheKind = CacheKind.NONE
    partial_rows_max: int = PARTIAL_ROWS_MAX_DEFAULT
    expire_after_write_ms: int = 0
    expire_after_access_ms: int = 0
    keeps_missing_keys: bool = True
    full_rows_max: int = FULL_ROWS_MAX_DEFAULT
    reload: Reload | None = None
    max_retries: int = MAX_RETRIES_DEFAULT

    @property
    def is_constant(self) -> bool:
        """Whether a job sees one and the same table all the time."""
        return self.cache is CacheKind.FULL and self.reload is None

    @staticmethod
    def of(options: Mapping[str, str]) -> LookupOptions:
        """UserError SS4003 for an option that the cache has no use for, SS4002 and SS4005 for values that do not fit."""
        written, options = options, _as_named_today(options)
        given = parse_options(_Given, options)
        cache = CacheKind(given.cache)
        _check_use(written, options, cache)
        return LookupOptions(
            cache=cache,
            partial_rows_max=given.partial_rows_max,
            expire_after_write_ms=given.expire_after_write_ms or 0,
            expire_after_access_ms=given.expire_after_access_ms or 0,
            keeps_missing_keys=given.keeps_missing_keys,
            full_rows_max=given.full_rows_max,
            reload=_reload(options, given) if cache is CacheKind.FULL else None,
            max_retries=given.max_retries,
        )


def lookup_options_given(options: Mapping[str, str]) -> LookupOptions | None:
    """Those of a table that says what is kept of it; None of any other. Errors as of `LookupOptions.of`."""
    is_given = any(key == "lookup.cache" or key.startswith("lookup.cache.") for key in options)
    return LookupOptions.of(options) if is_given else None


def too_many_rows(table: str, rows_max: int) -> UserError:
    """The table that a FULL cache was to load is larger than `lookup.full-cache.max-rows`."""
    return UserError("SS5064", f'table "{table}" has more than the {rows_max} rows that a FULL cache takes')


def _check_use(written: Mapping[str, str], options: Mapping[str, str], cache: CacheKind) -> None:
    for prefix, kind in ((_PARTIAL, CacheKind.PARTIAL), (_FULL, CacheKind.FULL)):
        unused = next((key for key in options if key.startswith(prefix)), None)
        if unused is not None and cache is not kind:
            unused = next((key for key in written if _TODAY.get(key) == unused), unused)
            raise UserError(
                "SS4003",
                f"option \"{unused}\" has no use with 'lookup.cache' = '{cache.value}'",
                option=unused,
                hint=f"add 'lookup.cache' = '{kind.value}', or leave the option out",
            )


def _reload(options: Mapping[str, str], given: _Given) -> Reload | None:
    strategy = ReloadStrategy(given.reload_strategy)
    other = "timed-reload." if strategy is ReloadStrategy.PERIODIC else "periodic-reload."
    unused = next((key for key in options if key.startswith(_FULL + other)), None)
    if unused is not None:
        raise UserError(
            "SS4003",
            f"option \"{unused}\" has no use with '{_FULL}reload-strategy' = '{strategy.value}'",
            option=unused,
            hint="choose the other strategy, or leave the option out",
        )
    if strategy is ReloadStrategy.TIMED:
        return _timed(given)
    mode = f"{_FULL}periodic-reload.schedule-mode"
    if given.reload_interval_ms is None:
        if mode in options:
            raise UserError(
                "SS4005",
                f'option "{mode}" needs an interval',
                option=mode,
                hint=f"add '{_FULL}periodic-reload.interval' = '10 min'",
            )
        return None
    return Reload(given.reload_interval_ms, given.reload_mode == "FIXED_RATE")


def _timed(given: _Given) -> Reload:
    key = f"{_FULL}timed-reload.iso-time"
    text = given.reload_time
    if text is None:
        raise UserError(
            "SS4005",
            f"'{_FULL}reload-strategy' = 'TIMED' needs a time",
            option=f"{_FULL}reload-strategy",
            hint=f"add '{key}' = '10:15'",
        )
    try:
        time = datetime.time.fromisoformat(text)
    except ValueError:
        raise UserError(
            "SS4002",
            f'option "{key}" takes a time, not "{text}"',
            option=key,
            hint="write '10:15', '10:15:30Z' or '10:15+02:00'",
        ) from None
    offset = time.utcoffset() or datetime.timedelta()
    moment = datetime.timedelta(hours=time.hour, minutes=time.minute, seconds=time.second) - offset
    return Reload(given.reload_days * _DAY_MS, time_of_day_ms=int(moment.total_seconds() * 1000) % _DAY_MS)
