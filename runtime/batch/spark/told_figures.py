"""Hands on to the run what Spark's tasks tell of a table."""

from __future__ import annotations

from typing import Any

from sqlstream.runtime.batch.engine import BatchRun
from sqlstream.runtime.batch.spark.tasks import LINES


def hand_on_figures(run: BatchRun, table: str, told: dict[str, Any]) -> None:
    """`told`: metrics by name, and under LINES what the tasks would print, each with whether it is an error."""
    for metric, value in told.items():
        if metric != LINES:
            run.count(table, metric, value)
            continue
        for line, is_error in value:
            run.print_lines([line], is_error)
