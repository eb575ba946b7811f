"""Keys of other days name those of today, which there are."""

from __future__ import annotations

import pytest

from sqlstream import config
from sqlstream.deprecated_keys import SETTINGS, table_hint
from sqlstream.errors import UserError


@pytest.mark.parametrize("old", sorted(SETTINGS))
def test_an_old_setting_names_one_that_there_is(old: str) -> None:
    config.option(SETTINGS[old])
    with pytest.raises(UserError, match=f'unknown option "{old}"') as raised:
        config.option(old)
    assert raised.value.hint == f"write '{SETTINGS[old]}', as it is called today"


def test_a_setting_of_parts_that_there_are_not_is_to_be_left_out() -> None:
    for key in ("table.planner", "execution.time-characteristic", "execution.checkpointing.incremental"):
        with pytest.raises(UserError) as raised:
            config.option(key)
        assert raised.value.hint.startswith("leave it out: ")


def test_a_key_of_a_table_is_named_only_where_the_table_takes_it() -> None:
    assert table_hint("lookup.cache.ttl", ()) == ""
    known = ("lookup.partial-cache.expire-after-write", "json.ignore-parse-errors", "path")
    assert table_hint("lookup.cache.ttl", known) == (
        "write 'lookup.partial-cache.expire-after-write' with 'lookup.cache' = 'PARTIAL', as it is called today"
    )
    assert table_hint("format.ignore-parse-errors", known) == (
        "write 'json.ignore-parse-errors', as it is called today"
    )
    assert table_hint("connector.path", known) == "write 'path', as it is called today"
    assert table_hint("update-mode", known) == "leave it out"
    assert table_hint("pfad", known) == ""
