"""Boolean options of formats."""

from __future__ import annotations


def is_true(options: dict[str, str], key: str, default: str = "false") -> bool:
    """The option's value, or the default when it is not given; the planner has checked its text."""
    return options.get(key, default).strip().lower() == "true"
