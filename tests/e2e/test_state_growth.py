"""EXPLAIN STATE FOR JOB on a job whose keys grow, with the managed memory of its slot as the budget."""

from __future__ import annotations

import re
import time
from pathlib import Path

from server_harness import RunningServer

FOUND_S = 120.0


def test_a_growing_job_says_how_fast_and_until_when(tmp_path: Path) -> None:
    words = ("-D", "taskmanager.memory.managed.size=64 gb", "-D", "taskmanager.numberOfTaskSlots=1")
    with RunningServer(tmp_path / "data", *words) as server:
        session = server.open_session()
        for statement in (
            "CREATE TEMPORARY TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '2000',"
            " 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '100000000')",
            "CREATE TEMPORARY TABLE nothing (n BIGINT, c BIGINT) WITH ('connector' = 'blackhole')",
        ):
            server.execute(session, statement)
        job_id = server.insert(session, "INSERT INTO nothing SELECT n, COUNT(*) FROM ticks GROUP BY n")
        deadline_s = time.monotonic() + FOUND_S
        while True:
            ((text,),) = server.execute(session, f"EXPLAIN STATE FOR JOB '{job_id}'")
            grown = re.search(r"grows +by ([\d,]+) keys and [\d.]+ \w+ a day", text)
            if grown is not None:
                break
            assert time.monotonic() < deadline_s, text
            time.sleep(0.3)
        # 2000 a second are 172.8 million a day; a machine that is busy may be slower.
        assert 0 < int(grown[1].replace(",", "")) <= 2 * 172_800_000
        assert re.search(r"keeps +[\d.]+ \w+ in [\d,]+ keys", text)
        each = re.search(r"size +(\d+) bytes per key", text)
        assert each is not None
        assert "budget: 64.0 GiB for its slot (taskmanager.memory.managed.size)" in text
        assert "until it is used up" in text
        server.execute(session, "SET 'sqlstream.state.budget' = '1 kb'")
        ((text,),) = server.execute(session, f"EXPLAIN STATE FOR JOB '{job_id}'")
        assert "budget: 1.0 KiB for all of the job (sqlstream.state.budget)" in text
        assert text.rstrip().endswith("it is used up")
        server.request("PATCH", f"/jobs/{job_id}?mode=cancel", rest=True)
        server.wait_for(job_id, "CANCELED")
