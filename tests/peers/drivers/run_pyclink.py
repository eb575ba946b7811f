"""Runs statements on pyclink for the comparison, in the environment that has it."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyclink
from serve import serve

RESULT = "result"


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run the request's `setup`, then its `job`, on an engine that is up; the totals of its rows when they are asked for."""
    # One thread a source already fills two cores; with a parallelism of 2 every subtask reads all of the file again.
    with pyclink.Engine(parallelism=1) as engine:
        if "setup" not in request:
            return {"version": engine.version}
        engine.execute(request["setup"])
        cpu, started = time.process_time(), time.perf_counter()
        engine.execute(request["job"])
        if "totals" in request:
            rows = engine.collect(RESULT).read_all()
            engine.await_all(int(request["timeout_s"] * 1000))
            return {"row": totals(rows, request["totals"], request["key"])}
        engine.await_all(int(request["timeout_s"] * 1000))
        return {"wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - cpu}


def totals(rows: pa.Table, columns: list[str], key: str | None) -> list[int]:
    """The number of rows and the sums of columns. Of a changelog by `key` the last row of each key counts."""
    if key is not None:
        numbered = rows.append_column("place", pa.array(range(rows.num_rows), pa.int64()))
        last = numbered.group_by(key).aggregate([("place", "max")])
        rows = rows.take(last["place_max"])
    return [rows.num_rows, *(pc.sum(rows[column]).as_py() for column in columns)]


if __name__ == "__main__":
    serve(answer)
