"""A pytest plugin for runs that only ask whether a test fails: properties draw the same examples each time, and shrink none."""

from __future__ import annotations

from hypothesis import Phase, settings

settings.register_profile(
    "first-failure", phases=(Phase.explicit, Phase.generate), derandomize=True, database=None
)
settings.load_profile("first-failure")
