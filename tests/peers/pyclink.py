"""pyclink as an engine of the comparison."""

from __future__ import annotations

import os
from pathlib import Path

from peers.engine import DRIVERS, Driver, Run
from peers.install import PYCLINK_VERSION, install_pyclink
from peers.queries import COLUMNS, WATERMARK_LAG_MS, Query

_START_TIMEOUT_S = 60


class Pyclink:
    """The engine in one process of its own. Its sink `blackhole` is the one that costs the least."""

    name = "pyclink"
    setup = (
        "one source thread a file (a table each, joined by `UNION ALL` in a view), parallelism 1 (with more, every subtask"
        " of its `file` source reads the whole file again), no checkpoints; writes to `blackhole`"
    )

    def __init__(self, logs: Path, folder: Path) -> None:
        python = install_pyclink(folder)
        self._driver = Driver(
            self.name, [str(python), str(DRIVERS / "run_pyclink.py")], dict(os.environ), logs / "pyclink.log"
        )
        self.version = PYCLINK_VERSION

    def run(self, query: Query, bids: Path, timeout_s: float) -> Run:
        answer = self._driver.ask(
            self._request(query, "blackhole", bids, timeout_s), timeout_s + _START_TIMEOUT_S
        )
        return Run(float(answer["wall_s"]), float(answer["cpu_s"]))

    def totals(self, query: Query, bids: Path, timeout_s: float) -> list[int]:
        request = self._request(query, "collect", bids, timeout_s) | {
            "totals": list(query.totals),
            "key": query.key,
        }
        answer = self._driver.ask(request, timeout_s + _START_TIMEOUT_S)
        return [int(value) for value in answer["row"]]

    def stop(self) -> None:
        self._driver.stop()

    def _request(self, query: Query, connector: str, bids: Path, timeout_s: float) -> dict[str, object]:
        sink = ", ".join(f'"{name}" {_type(type_)}' for name, type_ in query.sink)
        files = sorted(bids.glob("*.json"))
        changelog = ", changelog='true'" if query.key is not None else ""
        tables = [self._source(index, path) for index, path in enumerate(files)]
        every = " UNION ALL ".join(f"SELECT * FROM bid{index}" for index in range(len(files)))
        tables.append(f"CREATE VIEW bid AS {every}")
        tables.append(f"CREATE TABLE result ({sink}) WITH (connector='{connector}'{changelog})")
        return {
            "setup": ";\n".join(tables) + ";",
            "job": f"INSERT INTO result {query.pyclink}",
            "timeout_s": timeout_s,
        }

    def _source(self, index: int, path: Path) -> str:
        columns = ", ".join(f'"{name}" {"TEXT" if name in _TEXTS else "BIGINT"}' for name in COLUMNS)
        return (
            f"CREATE TABLE bid{index} ({columns}) WITH (connector='file', format='json', path='{path}',"
            f" event_time_column='dateTime', watermark_lag_ms='{WATERMARK_LAG_MS}')"
        )


_TEXTS = frozenset({"channel", "url", "extra"})


def _type(type_: str) -> str:
    return "TEXT" if type_ == "STRING" else type_
