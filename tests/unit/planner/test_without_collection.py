"""The collector runs again after a pause, however the pause ends."""

from __future__ import annotations

import gc

import pytest

from sqlstream.errors import UserError
from sqlstream.planner.dialect.parser import parse_script
from sqlstream.planner.guards import without_collection


def test_the_collector_runs_again_after_a_failure() -> None:
    with pytest.raises(UserError):
        parse_script("SELECT (1")
    assert gc.isenabled()


def test_pauses_nest() -> None:
    with without_collection():
        with without_collection():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
