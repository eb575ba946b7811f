"""Tables of change events: what queries that change write is read back as the table that they leave."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from oracle import Engine

OP = "'changelog.op-column' = 'op'"
FORMATS = {
    "debezium-json": "'debezium-json'",
    "canal-json": "'canal-json'",
    "maxwell-json": "'maxwell-json'",
    "ogg-json": "'ogg-json'",
    "changes in csv": f"'csv', 'csv.null-literal' = '', 'changelog.mode' = 'retract', {OP}",
    "changes by key in parquet": f"'parquet', 'changelog.mode' = 'upsert', {OP}",
    "rows by key in json": "'json', 'changelog.mode' = 'upsert'",
}


@pytest.mark.parametrize(
    ("identifier", "parallelism"), [(f, 3 if n % 2 else 1) for n, f in enumerate(FORMATS)]
)
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
            CREATE TABLE best (k INT, v STRING, total BIGINT, PRIMARY KEY (k) NOT ENFORCED)
            WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/best', 'format' = {FORMATS[identifier]});
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
    if "parquet" not in identifier:
        lines = sum(len(file.read_text().splitlines()) for file in (tmp_path / "best").glob("*.*"))
        assert lines > len(expected)
