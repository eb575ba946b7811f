"""Tables of change events: what queries that change write is read back as the table that they leave."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from oracle import Engine

FORMATS = ("debezium-json", "canal-json", "maxwell-json", "ogg-json")


@pytest.mark.parametrize("identifier", FORMATS)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_what_an_updating_query_writes_is_read_as_its_result(
    identifier: str, parallelism: int, tmp_path: Path
) -> None:
    draw = random.Random(identifier)
    rows = [(draw.randrange(9), draw.choice(["a", "b", None]), draw.randrange(100)) for _ in range(300)]
    (tmp_path / "rows.csv").write_text("".join(f"{k},{v or ''},{n}\n" for k, v, n in rows))
    engine = Engine(tmp_path / "engine")
    try:
        engine.configure(parallelism, 7)
        script = f"""
            CREATE TABLE t (k INT, v STRING, n INT)
            WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/rows.csv', 'format' = 'csv',
                  'csv.null-literal' = '');
            CREATE TABLE best (k INT, v STRING, total BIGINT)
            WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/best', 'format' = '{identifier}');
            INSERT INTO best SELECT k, MAX(v), SUM(n) FROM t GROUP BY k;
            SELECT * FROM best;
            SELECT total, COUNT(*) AS c FROM best GROUP BY total;
        """
        _, stored, counted = engine.run(script)
    finally:
        engine.close()
    expected = [
        (
            key,
            max((v for k, v, _ in rows if k == key and v is not None), default=None),
            sum(n for k, _, n in rows if k == key),
        )
        for key in {k for k, _, _ in rows}
    ]
    found = [tuple(row.values()) for row in stored.table.to_pylist()]
    assert Counter(found) == Counter(expected)
    totals = {row["total"]: row["c"] for row in counted.table.to_pylist()}
    assert totals == Counter(total for _, _, total in expected)
    events = sum(len(file.read_text().splitlines()) for file in (tmp_path / "best").glob("*.json"))
    assert events > len(expected)
