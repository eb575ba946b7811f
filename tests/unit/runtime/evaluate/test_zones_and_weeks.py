"""Weeks, days and time zones in date patterns, as Java's DateTimeFormatter has them where weeks are those of ISO 8601."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from sqlstream.runtime.evaluate.time.timestamp_format import TimestampFormat
from sqlstream.runtime.evaluate.time.timestamp_parser import TimestampParser

WRITTEN = [
    ("UTC", "2021-01-03T10:05:09.123Z", "YYYY-'W'ww-e", "2020-W53-7"),
    ("UTC", "2021-01-03T10:05:09.123Z", "YY w W", "20 53 0"),
    ("UTC", "2021-01-03T10:05:09.123Z", "E EEEE EEEEE", "Sun Sunday S"),
    ("UTC", "2021-01-03T10:05:09.123Z", "e ee eee eeee", "7 07 Sun Sunday"),
    ("UTC", "2021-01-03T10:05:09.123Z", "c ccc cccc", "7 Sun Sunday"),
    ("UTC", "2021-01-03T10:05:09.123Z", "Z ZZZZ ZZZZZ", "+0000 GMT Z"),
    ("UTC", "2021-01-03T10:05:09.123Z", "X XX XXX XXXX XXXXX", "Z Z Z Z Z"),
    ("UTC", "2021-01-03T10:05:09.123Z", "x xx xxx xxxx xxxxx", "+00 +0000 +00:00 +0000 +00:00"),
    ("UTC", "2021-01-03T10:05:09.123Z", "O OOOO", "GMT GMT"),
    ("UTC", "2021-01-03T10:05:09.123Z", "VV z", "UTC UTC"),
    ("UTC", "2021-01-03T10:05:09.123Z", "dd/MMM/yyyy:HH:mm:ss Z", "03/Jan/2021:10:05:09 +0000"),
    ("Europe/Berlin", "2024-07-01T00:00:00Z", "YYYY-'W'ww-e", "2024-W27-1"),
    ("Europe/Berlin", "2024-07-01T00:00:00Z", "YY w W", "24 27 1"),
    ("Europe/Berlin", "2024-07-01T00:00:00Z", "E EEEE EEEEE", "Mon Monday M"),
    ("Europe/Berlin", "2024-07-01T00:00:00Z", "e ee eee eeee", "1 01 Mon Monday"),
    ("Europe/Berlin", "2024-07-01T00:00:00Z", "c ccc cccc", "1 Mon Monday"),
    ("Europe/Berlin", "2024-07-01T00:00:00Z", "Z ZZZZ ZZZZZ", "+0200 GMT+02:00 +02:00"),
    ("Europe/Berlin", "2024-07-01T00:00:00Z", "X XX XXX XXXX XXXXX", "+02 +0200 +02:00 +0200 +02:00"),
    ("Europe/Berlin", "2024-07-01T00:00:00Z", "x xx xxx xxxx xxxxx", "+02 +0200 +02:00 +0200 +02:00"),
    ("Europe/Berlin", "2024-07-01T00:00:00Z", "O OOOO", "GMT+2 GMT+02:00"),
    ("Europe/Berlin", "2024-07-01T00:00:00Z", "VV z", "Europe/Berlin CEST"),
    ("Europe/Berlin", "2024-07-01T00:00:00Z", "dd/MMM/yyyy:HH:mm:ss Z", "01/Jul/2024:02:00:00 +0200"),
    ("Asia/Kolkata", "2020-12-31T23:59:59Z", "YYYY-'W'ww-e", "2020-W53-5"),
    ("Asia/Kolkata", "2020-12-31T23:59:59Z", "YY w W", "20 53 0"),
    ("Asia/Kolkata", "2020-12-31T23:59:59Z", "E EEEE EEEEE", "Fri Friday F"),
    ("Asia/Kolkata", "2020-12-31T23:59:59Z", "e ee eee eeee", "5 05 Fri Friday"),
    ("Asia/Kolkata", "2020-12-31T23:59:59Z", "c ccc cccc", "5 Fri Friday"),
    ("Asia/Kolkata", "2020-12-31T23:59:59Z", "Z ZZZZ ZZZZZ", "+0530 GMT+05:30 +05:30"),
    ("Asia/Kolkata", "2020-12-31T23:59:59Z", "X XX XXX XXXX XXXXX", "+0530 +0530 +05:30 +0530 +05:30"),
    ("Asia/Kolkata", "2020-12-31T23:59:59Z", "x xx xxx xxxx xxxxx", "+0530 +0530 +05:30 +0530 +05:30"),
    ("Asia/Kolkata", "2020-12-31T23:59:59Z", "O OOOO", "GMT+5:30 GMT+05:30"),
    ("Asia/Kolkata", "2020-12-31T23:59:59Z", "VV z", "Asia/Kolkata IST"),
    ("Asia/Kolkata", "2020-12-31T23:59:59Z", "dd/MMM/yyyy:HH:mm:ss Z", "01/Jan/2021:05:29:59 +0530"),
    ("America/St_Johns", "2016-05-01T12:00:00Z", "YYYY-'W'ww-e", "2016-W17-7"),
    ("America/St_Johns", "2016-05-01T12:00:00Z", "YY w W", "16 17 0"),
    ("America/St_Johns", "2016-05-01T12:00:00Z", "E EEEE EEEEE", "Sun Sunday S"),
    ("America/St_Johns", "2016-05-01T12:00:00Z", "e ee eee eeee", "7 07 Sun Sunday"),
    ("America/St_Johns", "2016-05-01T12:00:00Z", "c ccc cccc", "7 Sun Sunday"),
    ("America/St_Johns", "2016-05-01T12:00:00Z", "Z ZZZZ ZZZZZ", "-0230 GMT-02:30 -02:30"),
    ("America/St_Johns", "2016-05-01T12:00:00Z", "X XX XXX XXXX XXXXX", "-0230 -0230 -02:30 -0230 -02:30"),
    ("America/St_Johns", "2016-05-01T12:00:00Z", "x xx xxx xxxx xxxxx", "-0230 -0230 -02:30 -0230 -02:30"),
    ("America/St_Johns", "2016-05-01T12:00:00Z", "O OOOO", "GMT-2:30 GMT-02:30"),
    ("America/St_Johns", "2016-05-01T12:00:00Z", "VV z", "America/St_Johns NDT"),
    ("America/St_Johns", "2016-05-01T12:00:00Z", "dd/MMM/yyyy:HH:mm:ss Z", "01/May/2016:09:30:00 -0230"),
]
"""Time zone, instant, pattern; the text that Java 17 writes."""

READ = [
    ("2000-10-10 13:55 -0700", "yyyy-MM-dd HH:mm Z", 971211300),
    ("2000-10-10 13:55 -07:00", "yyyy-MM-dd HH:mm Z", None),
    ("2000-10-10 13:55 Z", "yyyy-MM-dd HH:mm X", 971186100),
    ("2000-10-10 13:55 +05", "yyyy-MM-dd HH:mm X", 971168100),
    ("2000-10-10 13:55 +0530", "yyyy-MM-dd HH:mm X", 971166300),
    ("2000-10-10 13:55 Z", "yyyy-MM-dd HH:mm x", None),
    ("2000-10-10 13:55 +05:30", "yyyy-MM-dd HH:mm xxx", 971166300),
    ("2000-10-10 13:55 +19:00", "yyyy-MM-dd HH:mm xxx", None),
    ("2000-10-10 13:55 GMT+5", "yyyy-MM-dd HH:mm O", 971168100),
    ("2000-10-10 13:55 GMT-5:30", "yyyy-MM-dd HH:mm O", 971205900),
    ("2000-10-10 13:55 GMT+05:30", "yyyy-MM-dd HH:mm OOOO", 971166300),
    ("2000-10-10 13:55 GMT+05:30", "yyyy-MM-dd HH:mm ZZZZ", 971166300),
    ("2000-10-10 13:55 +05:30:10", "yyyy-MM-dd HH:mm ZZZZZ", 971166290),
    ("2000-10-10 13:55 Europe/Paris", "yyyy-MM-dd HH:mm VV", 971178900),
    ("2000-10-10 13:55 PST", "yyyy-MM-dd HH:mm z", 971211300),
    ("2000-10-10 13:55 PDT", "yyyy-MM-dd HH:mm z", 971211300),
    ("Tue, 10 Oct 2000 13:55 GMT", "EEE, dd MMM yyyy HH:mm z", 971186100),
    ("Wed, 10 Oct 2000 13:55 GMT", "EEE, dd MMM yyyy HH:mm z", None),
    ("Tuesday, 10 Oct 2000 13:55 GMT", "EEEE, dd MMM yyyy HH:mm z", 971186100),
    ("tue, 10 Oct 2000 13:55 GMT", "EEE, dd MMM yyyy HH:mm z", None),
    ("2000-10-10 13:55 Z", "yyyy-MM-dd HH:mm Z", None),
    ("2000-10-10 13:55 +0000", "yyyy-MM-dd HH:mm Z", 971186100),
    ("2000-10-10 13:55 -07", "yyyy-MM-dd HH:mm Z", None),
]
"""Text, pattern; the seconds since the epoch that Java 17 reads."""

WEEKS = [
    ("2024-W05-3", "YYYY-'W'ww-e", "2024-01-31"),
    ("2020-W53-7", "YYYY-'W'ww-e", "2021-01-03"),
    ("2021-W53-1", "YYYY-'W'ww-e", "2021-12-27"),
    ("2021-W54-1", "YYYY-'W'ww-e", None),
    ("2024-W5-3", "YYYY-'W'w-c", "2024-01-31"),
    ("24-W05-Wed", "YY-'W'ww-E", "2024-01-31"),
    ("2024-W05-8", "YYYY-'W'ww-e", None),
    ("2024-W00-1", "YYYY-'W'ww-e", None),
]
"""Text, pattern; the date that Java 17 reads."""


@pytest.mark.parametrize(("time_zone", "instant", "pattern", "text"), WRITTEN)
def test_instants_are_written_as_they_are_shown(
    time_zone: str, instant: str, pattern: str, text: str
) -> None:
    moment = datetime.datetime.fromisoformat(instant)
    values = pa.array([None, moment, moment], pa.timestamp("ms", tz="UTC"))
    assert TimestampFormat(pattern, has_zone=True).format_shown(values, time_zone).to_pylist() == [
        None,
        text,
        text,
    ]


def test_each_instant_has_its_own_distance_to_utc() -> None:
    days = [datetime.datetime(2024, month, 1, tzinfo=datetime.UTC) for month in (7, 1, 8, 12)]
    texts = TimestampFormat("M Z z", has_zone=True).format_shown(pa.array(days), "Europe/Berlin").to_pylist()
    assert texts == ["7 +0200 CEST", "1 +0100 CET", "8 +0200 CEST", "12 +0100 CET"]


@pytest.mark.parametrize(("text", "pattern", "seconds"), READ)
def test_a_text_says_how_far_from_utc_it_is(text: str, pattern: str, seconds: int | None) -> None:
    parsed = TimestampParser.of_pattern(pattern).parse(pa.array([text, None, "other"]))
    assert parsed.instants("s", "Asia/Tokyo").cast(pa.int64()).to_pylist() == [seconds, None, None]


@pytest.mark.parametrize(("text", "pattern", "date"), WEEKS)
def test_a_day_may_be_named_by_its_week(text: str, pattern: str, date: str | None) -> None:
    wanted = None if date is None else datetime.date.fromisoformat(date)
    assert TimestampParser.of_pattern(pattern).parse(pa.array([text, None])).dates().to_pylist() == [
        wanted,
        None,
    ]


def test_a_week_without_a_day_is_its_monday() -> None:
    parsed = TimestampParser.of_pattern("YYYY-'W'ww").parse(pa.array(["2024-W05", "2021-W01"])).dates()
    assert parsed.to_pylist() == [datetime.date(2024, 1, 29), datetime.date(2021, 1, 4)]


@pytest.mark.parametrize(
    "text",
    [
        "tue, 10 Oct 2000 13:55:36 -0700",
        "MON, 10 oct 2000 13:55:36 GMT-07:00, and more",
        "Tue, 10 Oct 2000 20:55:36 GMT",
    ],
)
def test_a_lenient_pattern_does_not_look_at_the_day_of_the_week(text: str) -> None:
    parser = TimestampParser.of_pattern("EEE, dd MMM yyyy HH:mm:ss Z", has_rest=True)
    assert parser.parse(pa.array([text])).instants("s", "UTC").cast(pa.int64()).to_pylist() == [971211336]
