"""sqlstream as an engine of the comparison."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from peers.engine import DRIVERS, Driver, Run
from peers.flink import bid_table, sink_table
from peers.queries import Query

from sqlstream import __version__

_SETTINGS = {"parallelism.default": "2"}
_START_TIMEOUT_S = 120


class Sqlstream:
    """A cluster of child processes, one a core, with a session in a process of its own."""

    name = "sqlstream"
    version = __version__
    setup = (
        "parallelism 2, one TaskManager a core, no checkpoints; reads the directory, writes to `blackhole`"
    )

    def __init__(self, logs: Path) -> None:
        self._driver = Driver(
            self.name,
            [sys.executable, str(DRIVERS / "run_sqlstream.py"), json.dumps(_SETTINGS)],
            dict(os.environ),
            logs / "sqlstream.log",
        )

    def run(self, query: Query, bids: Path, timeout_s: float) -> Run:
        tables = f"{bid_table(bids)};\n{sink_table(query)};"
        answer = self._ask(tables, f"INSERT INTO answer {query.flink}", timeout_s)
        return Run(float(answer["wall_s"]), float(answer["cpu_s"]))

    def totals(self, query: Query, bids: Path, timeout_s: float) -> list[int]:
        answer = self._ask(f"{bid_table(bids)};", query.with_totals(query.flink), timeout_s)
        return [int(value) for value in answer["row"]]

    def stop(self) -> None:
        self._driver.stop()

    def _ask(self, tables: str, job: str, timeout_s: float) -> dict[str, Any]:
        return self._driver.ask(
            {"setup": tables, "job": job, "timeout_s": timeout_s}, timeout_s + _START_TIMEOUT_S
        )
