"""Settings of Flink that are taken and have no effect."""

from __future__ import annotations

import pytest

from sqlstream import config
from sqlstream.errors import UserError
from sqlstream.options.flink_tuning import TUNING


def test_no_setting_has_an_effect_and_has_none() -> None:
    assert TUNING.keys() & config.OPTIONS.keys() == set()
    assert config.note_of("parallelism.default", "2") == ""


@pytest.mark.parametrize("key", TUNING)
def test_its_default_fits_its_type_and_a_note_says_why_it_has_no_effect(key: str) -> None:
    config.option(key).parse(TUNING[key].default)
    assert config.note_of(key, TUNING[key].default).startswith(f"note: '{key}' has no effect here: ")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("table.exec.mini-batch.enabled", "yes"),
        ("table.exec.mini-batch.allow-latency", "5 parsecs"),
        ("table.exec.mini-batch.size", "many"),
        ("table.optimizer.runtime-filter.min-filter-ratio", "half"),
        ("taskmanager.memory.segment-size", "1 acre"),
    ],
)
def test_a_value_of_another_type_is_refused(key: str, value: str) -> None:
    with pytest.raises(UserError, match=key):
        config.option(key).parse(value)
