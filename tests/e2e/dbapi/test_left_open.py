"""Processes that close nothing end all the same, and leave nothing behind."""

from __future__ import annotations

import psutil
from command_harness import SQLSTREAM, run_to_end

SCRIPT = """
import os, sqlstream
connection = sqlstream.connect("embedded://")
cursor = connection.cursor()
cursor.execute("CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000')")
cursor.execute("SELECT n FROM ticks")
assert cursor.fetchone() is not None
print(os.getpid(), *(p.process_id for p in connection.session.session.cluster.task_managers()))
"""


def test_a_script_with_an_open_query_ends_in_silence() -> None:
    done = run_to_end([SQLSTREAM[0], "-c", SCRIPT])
    assert (done.returncode, done.stderr) == (0, "")
    process_ids = [int(word) for word in done.stdout.split()]
    assert len(process_ids) >= 2
    assert not any(psutil.pid_exists(id) for id in process_ids)


def test_a_connection_that_is_dropped_ends_its_cluster() -> None:
    script = SCRIPT.replace("print(os", "ids = (os").replace("))\n", "))\n", 1) + (
        "\ncursor = connection = None"
        "\nimport psutil"
        "\nprint([id for id in ids[1:] if psutil.pid_exists(id) and psutil.Process(id).status() != 'zombie'])"
    )
    done = run_to_end([SQLSTREAM[0], "-c", script])
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


WAITING = """
import asyncio, sys, sqlstream

async def main():
    connection = await sqlstream.connect_async(sys.argv[1])
    await connection.cursor().execute(
        "CREATE TEMPORARY TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000')"
    )
    cursor = await connection.cursor().execute("SELECT n FROM ticks WHERE n IS NULL")
    asyncio.ensure_future(cursor.fetchone())
    await asyncio.sleep(0.2)
    print("waits")

asyncio.run(main())
"""


def test_a_script_that_awaits_rows_ends_all_the_same(url: str) -> None:
    done = run_to_end([SQLSTREAM[0], "-c", WAITING, url])
    assert (done.returncode, done.stdout, done.stderr) == (0, "waits\n", "")
