"""Options of tables become values by what their class says."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sqlstream.spi.connector import OptionDescriptor, OptionType
from sqlstream.spi.table_options import descriptors_of, option, parse_options


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """One option of each type."""

    name: str = option("name", OptionType.STRING, "A name.", is_required=True)
    count: int = option("a.count", OptionType.LONG, "A count.", "3", minimum=1)
    rate: float = option("rate", OptionType.DOUBLE, "A rate.", "0.5")
    is_on: bool = option("on", OptionType.BOOLEAN, "Whether.", "false")
    pause_ms: int | None = option("pause", OptionType.DURATION, "How long.")
    size_bytes: int = option("size", OptionType.MEMORY_SIZE, "How large.", "2 mb")
    kind: str = option("kind", OptionType.ENUM, "Which.", "Slow", choices=("Slow", "FAST"))


def test_values_are_those_given_else_the_defaults() -> None:
    assert parse_options(Sizes, {"name": "x", "other": "y"}) == Sizes(
        name="x", count=3, rate=0.5, is_on=False, pause_ms=None, size_bytes=2 << 20, kind="Slow"
    )
    given = {"name": "", "a.count": " 7", "on": "TRUE", "pause": "2 min", "size": "1k", "kind": "fast"}
    assert parse_options(Sizes, given) == Sizes(
        name="", count=7, rate=0.5, is_on=True, pause_ms=120_000, size_bytes=1024, kind="FAST"
    )


def test_the_planner_gets_each_option_in_the_order_of_the_fields() -> None:
    described = descriptors_of(Sizes)
    assert [d.key for d in described] == ["name", "a.count", "rate", "on", "pause", "size", "kind"]
    assert described[1] == OptionDescriptor("a.count", OptionType.LONG, "A count.", "3", minimum=1)


@pytest.mark.parametrize(
    ("key", "text"), [("a.count", "x"), ("on", "yes"), ("kind", "medium"), ("pause", "1 y")]
)
def test_text_of_another_type_is_none(key: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_options(Sizes, {"name": "x", key: text})
