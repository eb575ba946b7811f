"""Keys that no operator could keep are refused when the statement is planned, under the SQL that asks for them."""

from __future__ import annotations

import pytest
from plan_harness import compile_script

from sqlstream.errors import UserError

DDL = """
CREATE TABLE s (k BIGINT, a ARRAY<BIGINT>, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
"""
MANY = ", ".join(f"k + {i} AS c{i}" for i in range(65))
FEW = ", ".join(f"k + {i} AS c{i}" for i in range(64))


def refused(sql: str, **config: str) -> tuple[str, str]:
    """(message, underlined text)"""
    text = DDL + sql
    settings = {k.replace("__", "."): v for k, v in config.items()}
    with pytest.raises(UserError) as error:
        compile_script(text, settings | {"table.local-time-zone": config.get("zone", "UTC")})
    span = error.value.span
    assert span is not None
    return error.value.message, text[span.start : span.end]


def test_a_key_has_at_most_64_columns() -> None:
    compile_script(f"{DDL} SELECT DISTINCT {FEW} FROM s;")
    message, blamed = refused(f"SELECT DISTINCT {MANY} FROM s")
    assert message == "a key has 65 columns, more than 64"
    assert blamed.startswith("SELECT DISTINCT")


def test_rows_that_are_taken_back_are_told_apart_by_simple_values() -> None:
    counted = "SELECT k, COUNT(*) AS n, FIRST_VALUE(a) AS a FROM s GROUP BY k"
    ranked = f"SELECT * FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n) AS r FROM ({counted})) WHERE r <= 3"
    message, blamed = refused(ranked)
    assert message == "a value of type ARRAY<BIGINT> cannot be part of a row that is updated"
    assert blamed == "ROW_NUMBER() OVER (ORDER BY n)"
    compile_script(f"{DDL} {ranked.replace(', FIRST_VALUE(a) AS a', '')};")


def test_ranks_over_updating_input_are_bounded() -> None:
    counted = "SELECT k, COUNT(*) AS n FROM s GROUP BY k"
    ranked = (
        f"SELECT k FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n) AS r FROM ({counted})) WHERE r <= 65536"
    )
    assert refused(ranked)[0] == "a Top-N over updating input keeps at most 65535 ranks, not 65536"
    compile_script(f"{DDL} {ranked.replace('65536', '65535')};")


@pytest.mark.parametrize("function", ["LISTAGG(x)", "FIRST_VALUE(x)", "LAST_VALUE(x)"])
def test_what_depends_on_order_takes_no_updates(function: str) -> None:
    latest = "SELECT k, CAST(MAX(k) AS STRING) AS x FROM s GROUP BY k"
    message, _ = refused(f"SELECT {function} FROM ({latest})")
    assert message.startswith(
        f"aggregate {function[:-3]} doesn't support consuming update and delete changes"
    )


def test_windows_over_instants_are_cut_in_utc_only() -> None:
    window = "TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
    sql = f"SELECT window_start, COUNT(*) FROM {window} GROUP BY window_start, window_end"
    message, blamed = refused(sql, zone="Europe/Berlin")
    assert message == 'windows in time zone "Europe/Berlin" are not supported yet'
    assert blamed == window
    compile_script(f"{DDL} {sql};", {"table.local-time-zone": "UTC"})
