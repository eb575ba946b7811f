"""Other keys stand for those that settings have, which there are."""

from __future__ import annotations

import pytest

from sqlstream import config
from sqlstream.config import RENAMED
from sqlstream.planner.dialect.habits import option_hint


@pytest.mark.parametrize("old", sorted(RENAMED))
def test_an_old_setting_is_taken_as_the_one_of_today(old: str) -> None:
    option = config.option(old)
    assert option == config.option(RENAMED[old])
    settled = config.settle(old, option.default or "text", at_start=True)
    assert (settled.key, settled.value) == (RENAMED[old], option.default or "text")
    assert settled.note == f"note: '{old}' is called '{RENAMED[old]}' here"


def test_a_key_of_a_table_is_named_only_where_the_table_takes_it() -> None:
    assert option_hint("lookup.cache.ttl", ()) == ""
    known = ("lookup.partial-cache.expire-after-write", "json.ignore-parse-errors", "path")
    assert option_hint("lookup.cache.ttl", known) == (
        "write 'lookup.partial-cache.expire-after-write' with 'lookup.cache' = 'PARTIAL', as it is called here"
    )
    assert option_hint("format.ignore-parse-errors", known) == (
        "write 'json.ignore-parse-errors', as it is called here"
    )
    assert option_hint("connector.path", known) == "write 'path', as it is called here"
    assert option_hint("update-mode", known) == "leave it out"
    assert option_hint("pfad", known) == ""
