"""Watermarks are handed to scans whose connector makes one for each of its splits."""

from __future__ import annotations

import msgspec
import pytest
from plan_harness import CONNECTORS, compile_script

from sqlstream import types as sql
from sqlstream.planner.explain import explain_physical
from sqlstream.spi.connector import OptionDescriptor, OptionType, Reading

SPLITS = msgspec.structs.replace(
    CONNECTORS["table"],
    identifier="splits",
    reading=Reading(watermarks=True, metadata={"seen": sql.timestamp_ltz(3)}),
    options=(OptionDescriptor("path", OptionType.STRING, "Where."),),
)
COUNT = "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"


def source_of(
    columns: str, emit: str = "on-event", queries: str = COUNT, connector: str = "splits"
) -> list[str]:
    """The last lines of the physical plan, from the assigner on, without what is known of all operators."""
    script = (
        f"CREATE TABLE t ({columns}) WITH"
        f" ('connector' = '{connector}', 'scan.watermark.emit.strategy' = '{emit}'); {queries}"
    )
    (plan,) = compile_script(script, connectors={"splits": SPLITS})
    lines = [line.strip(" :+-") for line in explain_physical(plan.physical).splitlines()]
    first = next(i for i, line in enumerate(lines) if line.startswith("WatermarkAssigner"))
    return [line.partition(" changelogMode")[0] for line in lines[first:]]


def test_the_scan_makes_the_watermark_and_the_column_of_its_rows() -> None:
    assert source_of("v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND") == [
        "WatermarkAssigner(rowtime=[ts], watermark=[(ts - INTERVAL 1000 ms)], emit=on-event, by=source)",
        "TableSourceScan(table=[t], connector=splits, fields=[ts], watermark=[(ts - INTERVAL 1000 ms)], bounded=true)",
    ]


def test_a_computed_row_time_is_a_column_of_the_scan_and_not_computed_again() -> None:
    columns = "s STRING, ts AS TO_TIMESTAMP(s), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"
    assert source_of(columns) == [
        "WatermarkAssigner(rowtime=[ts], watermark=[(ts - INTERVAL 1000 ms)], emit=on-event, by=source)",
        "Calc(select=[ts, $watermark])",
        "TableSourceScan(table=[t], connector=splits, fields=[s, ts],"
        " watermark=[(TO_TIMESTAMP(s) - INTERVAL 1000 ms)], bounded=true)",
    ]


def test_metadata_can_be_the_row_time() -> None:
    columns = "v INT, ts TIMESTAMP_LTZ(3) METADATA FROM 'seen' VIRTUAL, WATERMARK FOR ts AS ts"
    assert source_of(columns, "on-periodic")[-1] == (
        "TableSourceScan(table=[t], connector=splits, fields=[seen], watermark=[seen], bounded=true)"
    )


@pytest.mark.parametrize(
    ("columns", "connector"),
    [
        ("v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts", "table"),
        ("v INT, ts AS LOCALTIMESTAMP, WATERMARK FOR ts AS ts", "splits"),
    ],
)
def test_other_connectors_and_times_that_differ_with_each_look_keep_the_watermark_of_the_rows(
    columns: str, connector: str
) -> None:
    plan = "\n".join(source_of(columns, "on-periodic", connector=connector))
    assert "by=source" not in plan
    assert plan.count("watermark=[") == 1


def test_operators_that_want_the_column_and_others_share_one_scan() -> None:
    columns = "k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
    join = (
        "SELECT a.k FROM t AS a JOIN t AS b ON a.k = b.k AND a.ts BETWEEN b.ts AND b.ts + INTERVAL '1' SECOND"
    )
    script = (
        f"CREATE TABLE t ({columns}) WITH ('connector' = 'splits', 'scan.watermark.emit.strategy' = 'on-event');"
        "CREATE TABLE counts (n BIGINT) WITH ('connector' = 'append');"
        "CREATE TABLE pairs (k INT) WITH ('connector' = 'append');"
        f"EXECUTE STATEMENT SET BEGIN INSERT INTO counts {COUNT}; INSERT INTO pairs {join}; END;"
    )
    (plan,) = compile_script(script, connectors={"splits": SPLITS})
    text = explain_physical(plan.physical)
    assert text.count("TableSourceScan(") == 1
    assert text.count("WatermarkAssigner(") == 2
