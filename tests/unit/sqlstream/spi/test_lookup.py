"""The lookup options of a table, read, and when a cache of a whole table is loaded again."""

from __future__ import annotations

import pytest

from sqlstream.errors import UserError
from sqlstream.spi.lookup import CacheKind, LookupOptions, Reload

DAY_MS, HOUR_MS = 86_400_000, 3_600_000
FULL = {"lookup.cache": "FULL"}
TIMED = {**FULL, "lookup.full-cache.reload-strategy": "timed"}


def test_without_options_nothing_is_kept() -> None:
    read = LookupOptions.of({})
    assert read == LookupOptions()
    assert (read.cache, read.partial_rows_max, read.full_rows_max) == (CacheKind.NONE, 1_000_000, 10_000_000)
    assert (read.expire_after_write_ms, read.expire_after_access_ms, read.max_retries) == (0, 0, 3)
    assert read.keeps_missing_keys
    assert read.reload is None
    assert not read.is_constant


def test_a_partial_cache_has_its_own_options() -> None:
    assert LookupOptions.of(
        {
            "lookup.cache": "partial",
            "lookup.partial-cache.max-rows": "7",
            "lookup.partial-cache.expire-after-write": "2 s",
            "lookup.partial-cache.expire-after-access": "3 min",
            "lookup.partial-cache.cache-missing-key": "false",
            "lookup.max-retries": "0",
        }
    ) == LookupOptions(
        cache=CacheKind.PARTIAL,
        partial_rows_max=7,
        expire_after_write_ms=2_000,
        expire_after_access_ms=180_000,
        keeps_missing_keys=False,
        max_retries=0,
    )


def test_options_of_a_partial_cache_have_names_from_before_flink_1_16() -> None:
    earlier = {
        "lookup.cache.max-rows": "7",
        "lookup.cache.ttl": "2 s",
        "lookup.cache.caching-missing-key": "false",
    }
    assert LookupOptions.of(earlier) == LookupOptions(
        cache=CacheKind.PARTIAL, partial_rows_max=7, expire_after_write_ms=2_000, keeps_missing_keys=False
    )


def test_a_full_cache_is_loaded_once_unless_it_says_when_again() -> None:
    once = LookupOptions.of({**FULL, "lookup.full-cache.max-rows": "5"})
    assert (once.full_rows_max, once.reload, once.is_constant) == (5, None, True)
    again = LookupOptions.of({**FULL, "lookup.full-cache.periodic-reload.interval": "1 h"})
    assert (again.reload, again.is_constant) == (Reload(HOUR_MS), False)
    mode = {"lookup.full-cache.periodic-reload.schedule-mode": "fixed_rate"}
    rate = LookupOptions.of({**FULL, "lookup.full-cache.periodic-reload.interval": "1 h", **mode})
    assert rate.reload == Reload(HOUR_MS, is_fixed_rate=True)


@pytest.mark.parametrize(
    ("text", "days", "time_of_day_ms", "interval_ms"),
    [
        ("10:15", None, 36_900_000, DAY_MS),
        ("10:15:30Z", "1", 36_930_000, DAY_MS),
        ("10:15+02:00", "3", 29_700_000, 3 * DAY_MS),
        ("01:00+02:00", None, 82_800_000, DAY_MS),
        ("23:00-02:00", None, HOUR_MS, DAY_MS),
    ],
)
def test_a_timed_reload_has_a_time_of_the_day_in_utc(
    text: str, days: str | None, time_of_day_ms: int, interval_ms: int
) -> None:
    options = {**TIMED, "lookup.full-cache.timed-reload.iso-time": text}
    if days is not None:
        options["lookup.full-cache.timed-reload.interval-in-days"] = days
    assert LookupOptions.of(options).reload == Reload(interval_ms, time_of_day_ms=time_of_day_ms)


@pytest.mark.parametrize(
    ("reload", "next_ms"),
    [
        (Reload(1_000), 6_500 + 1_000),
        (Reload(1_000, is_fixed_rate=True), 5_000 + 1_000),
        # A load that begins when it is due is followed by one a day later.
        (Reload(DAY_MS, time_of_day_ms=5_000), DAY_MS + 5_000),
        (Reload(DAY_MS, time_of_day_ms=5_001), 5_001),
        (Reload(DAY_MS, time_of_day_ms=0), DAY_MS),
        (Reload(3 * DAY_MS, time_of_day_ms=4_999), 3 * DAY_MS + 4_999),
        (Reload(3 * DAY_MS, time_of_day_ms=5_001), 2 * DAY_MS + 5_001),
    ],
)
def test_the_next_load_is_due_after_the_last_one(reload: Reload, next_ms: int) -> None:
    assert reload.next_ms(5_000, 6_500) == next_ms
    assert reload.next_ms(DAY_MS + 5_000, DAY_MS + 6_500) == DAY_MS + next_ms


@pytest.mark.parametrize(
    ("options", "code", "message", "hint"),
    [
        (
            {"lookup.partial-cache.max-rows": "5"}, "SS4003",
            "option \"lookup.partial-cache.max-rows\" has no use with 'lookup.cache' = 'NONE'",
            "add 'lookup.cache' = 'PARTIAL', or leave the option out",
        ),
        (
            {"lookup.cache": "PARTIAL", "lookup.full-cache.max-rows": "5"}, "SS4003",
            "option \"lookup.full-cache.max-rows\" has no use with 'lookup.cache' = 'PARTIAL'",
            "add 'lookup.cache' = 'FULL', or leave the option out",
        ),
        (
            {**TIMED, "lookup.full-cache.periodic-reload.interval": "1 h"}, "SS4003",
            "option \"lookup.full-cache.periodic-reload.interval\" has no use with"
            " 'lookup.full-cache.reload-strategy' = 'TIMED'",
            "choose the other strategy, or leave the option out",
        ),
        (
            {**FULL, "lookup.full-cache.timed-reload.iso-time": "10:15"}, "SS4003",
            "option \"lookup.full-cache.timed-reload.iso-time\" has no use with"
            " 'lookup.full-cache.reload-strategy' = 'PERIODIC'",
            "choose the other strategy, or leave the option out",
        ),
        (
            {**FULL, "lookup.full-cache.periodic-reload.schedule-mode": "FIXED_RATE"}, "SS4005",
            'option "lookup.full-cache.periodic-reload.schedule-mode" needs an interval',
            "add 'lookup.full-cache.periodic-reload.interval' = '10 min'",
        ),
        (
            {"lookup.cache.max-rows": "1", "lookup.partial-cache.max-rows": "2"}, "SS4003",
            'option "lookup.cache.max-rows" is given twice, by two names',
            "leave it out, and keep 'lookup.partial-cache.max-rows'",
        ),
        (
            {"lookup.cache": "NONE", "lookup.cache.ttl": "2 s"}, "SS4003",
            "option \"lookup.cache.ttl\" has no use with 'lookup.cache' = 'NONE'",
            "add 'lookup.cache' = 'PARTIAL', or leave the option out",
        ),
        (
            TIMED, "SS4005", "'lookup.full-cache.reload-strategy' = 'TIMED' needs a time",
            "add 'lookup.full-cache.timed-reload.iso-time' = '10:15'",
        ),
        (
            {**TIMED, "lookup.full-cache.timed-reload.iso-time": "noon"}, "SS4002",
            'option "lookup.full-cache.timed-reload.iso-time" takes a time, not "noon"',
            "write '10:15', '10:15:30Z' or '10:15+02:00'",
        ),
    ],
)  # fmt: skip
def test_an_option_without_use_or_with_a_wrong_value_is_refused(
    options: dict[str, str], code: str, message: str, hint: str
) -> None:
    with pytest.raises(UserError) as refused:
        LookupOptions.of(options)
    assert (refused.value.code, refused.value.message, refused.value.hint) == (code, message, hint)
