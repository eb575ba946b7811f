"""A job with a model: its server is killed and the model's file replaced, and each row is what the first model said, once."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import psutil
import skl2onnx
from command_harness import TIMEOUT_S
from server_harness import RunningServer
from sklearn.linear_model import LinearRegression
from spark_harness.processes import wait_until

ROWS = 2_000


def write_model(path: Path, factor: int) -> None:
    """A model that multiplies."""
    x = np.arange(4, dtype=np.float64).reshape(-1, 1)
    made = skl2onnx.to_onnx(LinearRegression().fit(x, x[:, 0] * factor), x[:1])
    path.write_bytes(made.SerializeToString())


def rows_in(directory: Path) -> list[tuple[int, int]]:
    files = (
        [path for path in directory.iterdir() if not path.name.startswith(".")] if directory.exists() else []
    )
    lines = [line.split(",") for path in files for line in path.read_text().split()]
    return sorted((int(n), round(float(v))) for n, v in lines)


def test_a_killed_server_goes_on_with_the_model_that_the_job_began_with(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx", 3)
    options = f"'connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'csv'"
    insert = "INSERT INTO out SELECT n, v FROM ML_PREDICT(TABLE numbers, MODEL m, DESCRIPTOR(n))"
    with RunningServer(tmp_path / "server", "-D", f"sqlstream.server.file-roots={tmp_path}") as server:
        session = server.open_session()
        for statement in (
            "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', "
            f"'fields.n.start' = '1', 'fields.n.end' = '{ROWS}', 'rows-per-second' = '500')",
            f"CREATE TABLE out (n BIGINT, v DOUBLE) WITH ({options})",
            f"CREATE MODEL m INPUT (x DOUBLE) OUTPUT (v DOUBLE) WITH ('provider' = 'onnx', 'path' = '{tmp_path}/m.onnx')",
            "SET 'execution.checkpointing.interval' = '200 ms'",
        ):
            server.execute(session, statement)
        job_id = server.insert(session, insert)
        for rows in (200, 800):
            wait_until(lambda rows=rows: len(rows_in(tmp_path / "out")) > rows)
            write_model(tmp_path / "m.onnx", 5)
            children = server.children()
            server.signal(signal.SIGKILL)
            psutil.wait_procs(children, TIMEOUT_S)
            server.start()
        assert server.wait_for(job_id, "FINISHED", "FAILED") == "FINISHED", server.errors()
    assert rows_in(tmp_path / "out") == [(n, 3 * n) for n in range(1, ROWS + 1)]
