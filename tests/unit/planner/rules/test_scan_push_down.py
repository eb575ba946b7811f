"""Filters and limits are handed to scans whose connector can use them."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from plan_harness import CONNECTORS, compile_script
from planner_harness import Planner
from rule_harness import printed

from sqlstream.changelog import ChangelogMode
from sqlstream.planner.explain import explain_physical
from sqlstream.planner.relational.nodes import Filter, TableScan
from sqlstream.planner.rules.filter_push_down import push_into_scan
from sqlstream.spi.connector import OptionDescriptor, OptionType, Reading

OPTIONS = (OptionDescriptor("path", OptionType.STRING, "Where."),)
ABLE = {
    name: msgspec.structs.replace(
        CONNECTORS["table"],
        identifier=name,
        options=OPTIONS,
        reading=Reading(filters=True, filters_exactly=name == "exact", limits=True),
    )
    for name in ("hinted", "exact")
}


ORDERS = (
    "CREATE TABLE t (id INT, v INT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = '{kind}')"
)


def plan(query: str, kind: str) -> list[str]:
    """The operators with their conditions, the last of a chain first."""
    (made,) = compile_script(f"{ORDERS.format(kind=kind)}; {query}", connectors=ABLE)
    lines = [
        line.strip(" :+-").partition(" changelogMode")[0]
        for line in explain_physical(made.physical).splitlines()
    ]
    shown = [line for line in lines if line.startswith(("Calc", "TableSourceScan", "Limit"))]
    return [
        line.replace(f"table=[t], connector={kind}, ", "")
        .replace(", bounded=true", "")
        .removesuffix(" => SINGLETON")
        for line in shown
    ]


@pytest.mark.parametrize(
    ("kind", "query", "operators"),
    [
        (
            "hinted",
            "SELECT id FROM t WHERE id > 3 AND v > 8 AND id > 3",
            [
                "Calc(select=[id], where=[((id > 3) AND (v > 8))])",
                "TableSourceScan(fields=[id, v], filters=[((id > 3) AND (v > 8))])",
            ],
        ),
        ("exact", "SELECT v FROM t WHERE v > 8", ["TableSourceScan(fields=[v], filters=[(v > 8)])"]),
        (
            "exact",
            "SELECT id FROM t WHERE id > 3 AND RAND() > 0.5",
            ["Calc(select=[id], where=[((id > 3) AND (RAND() > 0.5))])", "TableSourceScan(fields=[id])"],
        ),
        (
            "table",
            "SELECT v FROM t WHERE v > 8",
            ["Calc(select=[v], where=[(v > 8)])", "TableSourceScan(fields=[v])"],
        ),
        (
            "hinted",
            "SELECT id FROM t LIMIT 7 OFFSET 2",
            ["Limit(offset=2, fetch=7)", "TableSourceScan(fields=[id], limit=9)"],
        ),
        ("hinted", "SELECT v FROM t ORDER BY v LIMIT 7", ["TableSourceScan(fields=[v])"]),
        ("table", "SELECT id FROM t LIMIT 7", ["Limit(fetch=7)", "TableSourceScan(fields=[id])"]),
        (
            "exact",
            "SELECT v FROM t WHERE v > 1 LIMIT 7",
            ["Limit(fetch=7)", "TableSourceScan(fields=[v], filters=[(v > 1)])"],
        ),
    ],
)
def test_the_scan_has_what_its_connector_can_use(kind: str, query: str, operators: list[str]) -> None:
    assert plan(query, kind) == operators


@pytest.mark.parametrize(
    ("condition", "stays", "moves"),
    [
        ("id > 3 AND v > 8 AND id < 9", "($1 > 8)", "($0 > 3), ($0 < 9)"),
        ("id > 3", "", "($0 > 3)"),
        ("v > 8", "($1 > 8)", ""),
        ("id > v", "($0 > $1)", ""),
        ("id > 3 AND id > RAND()", "(CAST($0 AS DOUBLE) > RAND())", "($0 > 3)"),
        ("RAND() > 0.5", "(RAND() > 0.5)", ""),
    ],
)
@pytest.mark.parametrize("connector", ["hinted", "exact"])
def test_of_changes_only_those_of_some_keys_are_left_out(
    condition: str, stays: str, moves: str, connector: str
) -> None:
    planner = Planner()
    planner.run(ORDERS.format(kind="datagen"))
    bound = planner.bind(f"SELECT * FROM t WHERE {condition}").inputs[0]
    assert isinstance(bound, Filter)
    assert isinstance(bound.input, TableScan)
    scan = dataclasses.replace(bound.input, mode=ChangelogMode.RETRACT, options=(("connector", connector),))
    made = printed(push_into_scan(dataclasses.replace(bound, input=scan), ABLE)).splitlines()
    filters = f" filters=[{moves}]," if moves else ""
    scanned = f"TableScan(table=[`t`], columns=[id, v, s],{filters} changelog=[I,UB,UA,D])"
    assert made == ([f"Filter(condition=[{stays}])", f"+- {scanned}"] if stays else [scanned])
