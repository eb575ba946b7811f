"""A planner with tables, and one without."""

from __future__ import annotations

import pytest
from planner_harness import TABLES, Planner


@pytest.fixture
def planner() -> Planner:
    made = Planner()
    made.run(TABLES)
    return made


@pytest.fixture
def bare() -> Planner:
    """A planner with an empty catalog."""
    return Planner()
