"""Models that a job trains while others call them: kills and savepoints change no bit of the weights, and predictions follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from operator_harness import operator_context, run_operator
from server_harness import RunningServer
from spark_harness.processes import wait_until

from sqlstream import types as sql
from sqlstream.models import LINEAR
from sqlstream.schema import Schema
from sqlstream.specs.train_model import PUBLISHED, TrainModelSpec

ROWS = 3_000
SEQUENCE = (
    "'connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', "
    f"'fields.n.end' = '{ROWS}', 'rows-per-second' = '600'"
)
QUERY = "SELECT CAST(MOD(n, 17) AS DOUBLE) AS a, CAST(MOD(n, 5) AS INT) AS b, 2 * MOD(n, 17) - MOD(n, 5) + 7 AS y FROM numbers"
TRAIN = (
    "CREATE MODEL m WITH ('algorithm' = 'linear-regression', 'label' = 'y', 'mini-batch-size' = '32', "
    "'weights.path' = '{0}/w.json') AS " + QUERY
)


def lines_of(directory: Path) -> list[dict[str, Any]]:
    path = directory / "w.json"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def learned(directory: Path) -> int:
    return max((line["rows"] for line in lines_of(directory)), default=0)


def expected_weights() -> list[float]:
    """Those of the same rows in one piece."""
    n = np.arange(1, ROWS + 1)
    a, b = (n % 17).astype(float), (n % 5).astype(float)
    spec = TrainModelSpec("m", LINEAR, ("a", "b"), 32, learning_rate=0.1, standardizes=True)
    schema = Schema.of(("a", sql.DOUBLE), ("b", sql.DOUBLE), ("y", sql.DOUBLE))
    whole = pa.record_batch([a, b, 2 * a - b + 7], names=list(schema.names))
    return [row[-1] for row in run_operator(spec, operator_context([schema], PUBLISHED), [whole]).rows]


def prepare(server: RunningServer, directory: Path) -> str:
    session = server.open_session()
    for statement in (
        f"CREATE TABLE numbers (n BIGINT) WITH ({SEQUENCE})",
        "SET 'execution.checkpointing.interval' = '200 ms'",
        f"SET 'execution.checkpointing.savepoint-dir' = '{directory}/savepoints'",
    ):
        server.execute(session, statement)
    return session


def kill(server: RunningServer) -> None:
    server.kill()
    server.start()


def test_a_job_predicts_with_what_another_learns_though_their_server_is_killed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with RunningServer(tmp_path / "server", "-D", f"sqlstream.server.file-roots={tmp_path}") as server:
        session = prepare(server, tmp_path)
        training = server.insert(session, TRAIN.format(tmp_path))
        for statement in (
            "CREATE TABLE asked (a DOUBLE) WITH ('connector' = 'datagen', 'fields.a.min' = '0', 'fields.a.max' = '17', "
            "'rows-per-second' = '200')",
            f"CREATE TABLE out (a DOUBLE, y DOUBLE) WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv')",
        ):
            server.execute(session, statement)
        predict = "INSERT INTO out SELECT a, y FROM ML_PREDICT(TABLE (SELECT a, 1 AS b FROM asked), MODEL m, DESCRIPTOR(a, b))"
        predicting = server.insert(session, predict)
        for rows in (200, 800):
            wait_until(lambda rows=rows: learned(tmp_path) >= rows)
            kill(server)
        assert server.wait_for(training, "FINISHED", "FAILED") == "FINISHED", server.errors()
        assert learned(tmp_path) == ROWS
        assert [line["weight"] for line in lines_of(tmp_path)] == expected_weights()
        wait_until(lambda: any(is_learned(line) for line in predictions(out)))
        assert server.statuses()[predicting] == "RUNNING"
        weights = server.execute(session, "SELECT feature, `rows` FROM m$weights")
        assert weights == [["a", ROWS], ["b", ROWS], ["(intercept)", ROWS]]
        evaluate = (
            "SELECT `rows`, rmse < 0.1 FROM ML_EVALUATE(TABLE "
            "(SELECT * FROM (VALUES (3E0, 2, 11E0), (8E0, 4, 19E0)) AS t (a, b, y)), MODEL m, DESCRIPTOR(y), "
            "DESCRIPTOR(a, b), 'regression')"
        )
        assert server.execute(session, evaluate)[-1][-2:] == [2, True]
        assert "do not add up" not in server.errors()


def predictions(out: Path) -> list[tuple[float, str]]:
    files = [p for p in out.iterdir() if not p.name.startswith(".")] if out.exists() else []
    pairs = [line.split(",") for path in files for line in path.read_text().splitlines()]
    return [(float(a), y) for a, y in pairs]


def is_learned(pair: tuple[float, str]) -> bool:
    return bool(pair[1]) and abs(float(pair[1]) - (2 * pair[0] + 6)) < 0.1


def test_a_training_goes_on_from_a_savepoint(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "server", "-D", f"sqlstream.server.file-roots={tmp_path}") as server:
        session = prepare(server, tmp_path)
        # It would take twenty seconds.
        server.execute(session, "ALTER TABLE numbers SET ('rows-per-second' = '150')")
        first = server.insert(session, TRAIN.format(tmp_path))
        wait_until(lambda: learned(tmp_path) >= 300)
        savepoint = server.execute(session, f"STOP JOB '{first}' WITH SAVEPOINT")[0][0]
        before = lines_of(tmp_path)[0]
        server.execute(session, "DROP MODEL m")
        server.execute(session, "ALTER TABLE numbers SET ('rows-per-second' = '1000000')")
        server.execute(session, f"SET 'execution.state-recovery.path' = '{savepoint}'")
        second = server.insert(session, TRAIN.format(tmp_path))
        assert server.wait_for(second, "FINISHED", "FAILED") == "FINISHED", server.errors()
        after = lines_of(tmp_path)
        assert after[0]["version"] > before["version"]
        assert after[0]["rows"] == ROWS
        assert [line["weight"] for line in after] == expected_weights()
        assert "do not add up" not in server.errors()
