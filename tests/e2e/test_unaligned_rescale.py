"""A job that is killed behind an unaligned checkpoint goes on at another parallelism: the rows that were under way are in it."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from command_harness import free_port
from server_harness import RunningServer
from spark_harness.processes import wait_until
from standalone_harness import STANDALONE, Worker, join_address, runs_with, slots, workers

ROWS = 6_000_000
KEYS = 1_000


def newest(directory: Path) -> tuple[Path, dict[str, Any]] | None:
    found = sorted(directory.glob("*/chk-*/_metadata"), key=lambda path: int(path.parent.name[4:]))
    if not found:
        return None
    try:
        return found[-1].parent, json.loads(found[-1].read_bytes())["checkpoint"]
    except (OSError, ValueError):
        return None


def rows_in_flight(directory: Path) -> int:
    found = newest(directory)
    return rows_in_flight_of(found[0]) if found is not None else 0


def rows_in_flight_of(checkpoint: Path) -> int:
    try:
        manifest = json.loads((checkpoint / "_metadata").read_bytes())["checkpoint"]
    except (OSError, ValueError):
        return 0
    states = [state for vertex in manifest["vertices"] for state in vertex["subtasks"]]
    items = [item for state in states for each in state["in_flight"] for item in each["items"]]
    return sum(item for item in items if isinstance(item, int))


def table_of(directory: Path) -> Counter[tuple[int, ...]]:
    """What a changelog of files comes to."""
    found: Counter[tuple[int, ...]] = Counter()
    for path in directory.glob("part-*"):
        for line in path.read_text().splitlines():
            change = json.loads(line)
            for side, count in (("before", -1), ("after", 1)):
                if change[side] is not None:
                    found[tuple(change[side].values())] += count
    return +found


def statements(directory: Path, parallelism: int) -> list[str]:
    return [
        f"SET 'parallelism.default' = '{parallelism}'",
        f"SET 'execution.checkpointing.dir' = '{directory / 'checkpoints'}'",
        "SET 'execution.checkpointing.interval' = '200 ms'",
        "SET 'execution.checkpointing.unaligned.enabled' = 'true'",
        "SET 'execution.checkpointing.externalized-checkpoint-retention' = 'RETAIN_ON_CANCELLATION'",
        "SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE'",
        f"""CREATE TEMPORARY TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000',
            'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{ROWS}')""",
        f"""CREATE TEMPORARY TABLE o (k BIGINT, c BIGINT, total BIGINT) WITH ('connector' = 'filesystem',
            'format' = 'debezium-json', 'path' = '{directory / "out"}')""",
    ]


INSERT = f"INSERT INTO o SELECT MOD(n, {KEYS}), slowly(COUNT(*)), SUM(n) FROM g GROUP BY MOD(n, {KEYS})"

SLOWLY = """
import time
from pathlib import Path
from sqlstream import udf

@udf(func_type="arrow", result_type="BIGINT")
def slowly(values):
    if Path({directory!r}, "slow").exists():
        time.sleep(0.1)
    return values
"""
"""Holds what follows the aggregation back, so that rows wait before it however fast the machine is."""

PYTHON = ("-D", "sqlstream.server.python-functions.enabled=true")


def slow_statements(directory: Path, parallelism: int) -> tuple[str, ...]:
    """`slowly` is slow while there is a file of the name `slow`."""
    (directory / "held_back.py").write_text(SLOWLY.format(directory=str(directory)))
    return (
        *statements(directory, parallelism),
        f"SET 'python.files' = '{directory / 'held_back.py'}'",
        "CREATE TEMPORARY FUNCTION slowly AS 'held_back.slowly' LANGUAGE PYTHON",
    )


@pytest.mark.timeout(400)
def test_rows_under_way_go_on_at_another_parallelism(tmp_path: Path) -> None:
    (tmp_path / "slow").touch()
    with RunningServer(tmp_path / "data", *PYTHON) as server:
        session = server.open_session()
        for text in slow_statements(tmp_path, 2):
            server.execute(session, text)
        server.insert(session, INSERT)
        for _ in range(10):
            wait_until(lambda: rows_in_flight(tmp_path / "checkpoints") > 0)
            assert server.signal(signal.SIGKILL) == -signal.SIGKILL
            # Another checkpoint may have come before the kill.
            if rows_in_flight(tmp_path / "checkpoints"):
                break
            server.start()
    found = newest(tmp_path / "checkpoints")
    assert found is not None
    assert rows_in_flight(tmp_path / "checkpoints")
    (tmp_path / "slow").unlink()
    with RunningServer(tmp_path / "other", *PYTHON) as server:
        session = server.open_session()
        for text in slow_statements(tmp_path, 3):
            server.execute(session, text)
        server.execute(session, f"SET 'execution.state-recovery.path' = '{found[0]}'")
        job = server.insert(session, INSERT)
        server.wait_for(job, "FINISHED", timeout_s=200)
        assert server.get(f"/jobs/{job}/checkpoints")["latest"]["restored"]["id"] == int(found[0].name[4:])
    check_rows(tmp_path)


def check_rows(directory: Path) -> None:
    each = {k: range(k or KEYS, ROWS + 1, KEYS) for k in range(KEYS)}
    assert table_of(directory / "out") == Counter((k, len(ns), sum(ns)) for k, ns in each.items())


ADAPTIVE = (
    "SET 'jobmanager.scheduler' = 'Adaptive'",
    "SET 'execution.checkpointing.num-retained' = '1000'",
    "SET 'jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout' = '300 ms'",
    "SET 'jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling' = '300 ms'",
    "SET 'restart-strategy.type' = 'fixed-delay'",
    "SET 'restart-strategy.fixed-delay.attempts' = '100'",
    "SET 'restart-strategy.fixed-delay.delay' = '100 ms'",
)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("left", [1, 2])
def test_an_adaptive_job_goes_on_from_rows_under_way_with_the_slots_that_are_left(
    tmp_path: Path, left: int
) -> None:
    """Hosts vanish until the job has gone on from rows under way with fewer slots; each time others take their place."""
    words = (*STANDALONE, "-D", f"jobmanager.rpc.port={free_port()}", "-D", "heartbeat.timeout=3 s")
    checkpoints = tmp_path / "checkpoints"
    (tmp_path / "slow").touch()
    with (
        RunningServer(tmp_path / "data", *words, *PYTHON) as server,
        workers(tmp_path, join_address(server), 3) as joined,
    ):
        wait_until(lambda: slots(server) == 3)
        session = server.open_session()
        for text in (*ADAPTIVE, *slow_statements(tmp_path, 3)):
            server.execute(session, text)
        job = server.insert(session, INSERT)
        for attempt in range(10):
            wait_until(lambda: runs_with(server, job, 3))
            wait_until(lambda: rows_in_flight(checkpoints) > 0)
            for worker in joined[-(3 - left) :]:
                worker.vanish()
            wait_until(lambda: runs_with(server, job, left))
            restored = server.get(f"/jobs/{job}/checkpoints")["latest"]["restored"]["id"]
            if rows_in_flight_of(checkpoints / job / f"chk-{restored}"):
                break
            token = ("--token-file", str(tmp_path / "join-token"))
            for number in range(3 - left):
                place = tmp_path / f"next{attempt}-{number}"
                joined.append(Worker(place, join_address(server), *token))
        else:
            raise AssertionError("no checkpoint with rows under way was gone on from")
        (tmp_path / "slow").unlink()
        server.wait_for(job, "FINISHED", timeout_s=200)
    check_rows(tmp_path)
