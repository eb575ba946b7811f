"""The refusal of what DuckDB cannot answer exactly."""

from __future__ import annotations

import functools

from sqlstream.planner.lower import refusals

ENGINE = "DuckDB"
refuse = functools.partial(refusals.refuse, ENGINE)
