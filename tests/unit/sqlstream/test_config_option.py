"""How the text of a setting is read, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from sqlstream.config_option import (
    ConfigOption,
    ConfigType,
    Scope,
    parse_boolean,
    parse_duration_ms,
    parse_memory_bytes,
    parse_time_zone,
)
from sqlstream.errors import Span, UserError


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        *(
            ("7", 7),
            ("7 ms", 7),
            ("7milliseconds", 7),
            (" 10 s ", 10_000),
            ("2 MIN", 120_000),
            ("3m", 180_000),
        ),
        *(
            ("1 h", 3_600_000),
            ("2 days", 172_800_000),
            ("1500 us", 1),
            ("2000000 ns", 2),
            ("1500 µs", 1),
            ("0", 0),
        ),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *(("5", 5), ("5 b", 5), ("2 k", 2_048), ("2kb", 2_048), ("3 MB", 3_145_728), ("3 m", 3_145_728)),
        *(("1 g", 1_073_741_824), ("1 gibibytes", 1_073_741_824), ("2 tb", 2_199_023_255_552)),
    ],
)
def test_a_size_is_a_number_and_a_binary_unit(text: str, size: int) -> None:
    assert parse_memory_bytes(text) == size


@pytest.mark.parametrize("text", ["", "s", "-1 s", "1.5 s", "1 s 2", "1 parsec", "1 kb"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_duration_ms(text)


def test_a_boolean_is_true_or_false_in_any_case() -> None:
    assert [parse_boolean(t) for t in ("true", " TRUE ", "false", "False")] == [True, True, False, False]
    for text in ("yes", "1", ""):
        with pytest.raises(ValueError) as raised:  # noqa: PT011
            parse_boolean(text)
        assert raised.value.args == (text,)


@pytest.mark.parametrize("text", ["UTC", "z", "UTC+0", "Europe/Berlin", "GMT+08:00", "-03:30", "UTC-18:00"])
def test_a_time_zone_stays_as_it_was_written(text: str) -> None:
    assert parse_time_zone(text) == text


@pytest.mark.parametrize(
    "text", ["Mars/Base", "GMT+19:00", "+18:01", "GMT+8:00", "+01:60", "../etc/passwd", ""]
)
def test_a_time_zone_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_time_zone(text)


def bounded(minimum: int | None, maximum: int | None, kind: ConfigType = ConfigType.INTEGER) -> ConfigOption:
    return ConfigOption("x.y", kind, "1", "About it.", minimum=minimum, maximum=maximum)


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (bounded(2, 4), "2", 2),
        (bounded(2, 4), "4", 4),
        (bounded(None, 4), "-9", -9),
        (bounded(2, None), "900", 900),
        (bounded(1_000, None, ConfigType.DURATION), "1 s", 1_000),
        (bounded(None, 2_048, ConfigType.MEMORY_SIZE), "2 kb", 2_048),
        (bounded(0, 1, ConfigType.DOUBLE), "0.5", 0.5),
        (ConfigOption("x.y", ConfigType.BOOLEAN, "true", "About it.", minimum=2), "true", True),
        (ConfigOption("x.y", ConfigType.ENUM, "A", "About it.", choices=("A", "B")), " b ", "B"),
        (ConfigOption("x.y", ConfigType.STRING, "", "About it."), " as it is ", " as it is "),
    ],
)
def test_a_value_within_its_bounds_is_read(option: ConfigOption, text: str, value: Any) -> None:
    read = option.parse(text)
    assert (read, type(read)) == (value, type(value))


ENUM = ConfigOption("x.y", ConfigType.ENUM, "A", "About it.", choices=("A", "B"), refused=("C",))


@pytest.mark.parametrize(
    ("option", "text", "message", "hint"),
    [
        (bounded(2, 4), "1", 'option "x.y" must be at least 2, not 1', "give a value from 2 to 4"),
        (bounded(2, 4), "5", 'option "x.y" must be at most 4, not 5', "give a value from 2 to 4"),
        (bounded(0, 1, ConfigType.DOUBLE), "nan", 'option "x.y" must be at least 0, not nan', "give a value from 0 to 1"),
        (bounded(None, 1, ConfigType.DOUBLE), "nan", 'option "x.y" must be at most 1, not nan', "give 1 or less"),
        (bounded(2, 4), "two", 'option "x.y" takes an integer, not "two"', "write a whole number such as '4'"),
        (
            bounded(2, 4, ConfigType.DURATION), "x", 'option "x.y" takes a duration, not "x"',
            "write a number and a unit such as '200 ms', '10 s' or '1 h'",
        ),
        (
            ConfigOption("my.password", ConfigType.INTEGER, "1", ""), "hunter2",
            'option "my.password" takes an integer, not "******"', "write a whole number such as '4'",
        ),
        (ENUM, "d", 'option "x.y" cannot be "d"', "choose one of A, B"),
        (ENUM, " c", 'option "x.y" cannot be " c", which is not supported yet', "choose one of A, B"),
        (
            ConfigOption("x.y", ConfigType.ENUM, "A", "why", choices=("A",)), "d", 'option "x.y" cannot be "d"',
            "leave it at A: why",
        ),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused(
    option: ConfigOption, text: str, message: str, hint: str
) -> None:
    with pytest.raises(UserError) as refused:
        option.parse(text, Span(3, 5))
    assert (refused.value.code, refused.value.message, refused.value.hint) == ("SS4002", message, hint)
    assert refused.value.span == Span(3, 5)


def test_a_session_sets_what_belongs_to_sessions_jobs_and_clients() -> None:
    assert [s for s in Scope if s.is_settable] == [Scope.SESSION, Scope.JOB, Scope.CLIENT]
