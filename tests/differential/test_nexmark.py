"""Each Nexmark query over 100,000 events, read by two subtasks, has the batch answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from differential.nexmark_batch import BATCH_SQL, COMPARED_COLUMNS, batch_answer
from oracle import Engine, assert_same_rows, rows_of

from sqlstream.catalog import DEFAULT_CATALOG, DEFAULT_DATABASE, CatalogTable
from sqlstream.planner.dialect.parser import parse_script
from sqlstream.planner.dialect.statements import Insert
from sqlstream.runtime.connectors.generators.nexmark_config import NexmarkConfig

QUERIES = Path(__file__).parents[2] / "queries" / "nexmark"
EVENTS = 100_000
RATE = 1000
"""Events a second of event time: ten windows of ten seconds, and no two events of one time (q18)."""


def answer(
    engine: Engine,
    query: str,
    parallelism: int,
    settings: Mapping[str, str] | None = None,
    events: int = EVENTS,
) -> pa.Table:
    """The rows that the file's INSERT writes, handed to us instead."""
    return engine.collect(create_tables(engine, query, parallelism, settings, events)).table


def create_tables(
    engine: Engine, query: str, parallelism: int, settings: Mapping[str, str] | None, events: int
) -> Insert:
    """The tables of a query's file over so many events; returns its INSERT."""
    engine.configure(parallelism, 8192, settings)
    *definitions, insert = parse_script((QUERIES / f"{query}.sql").read_text())
    for definition in definitions:
        engine.execute(definition)
    for entry in engine.catalog.list(DEFAULT_CATALOG, DEFAULT_DATABASE):
        assert isinstance(entry, CatalogTable)
        options = dict(entry.options)
        if options["connector"] == "nexmark":
            options |= {"nexmark.events": str(events), "nexmark.rate": str(RATE)}
        if "path" in options:
            # It is relative to the checkout.
            options["path"] = str(QUERIES.parents[1] / options["path"])
        engine.catalog.put(msgspec.structs.replace(entry, options=options))
    assert isinstance(insert, Insert)
    return insert


@pytest.mark.parametrize("query", sorted(BATCH_SQL, key=lambda q: int(q[1:])))
def test_a_query_has_the_batch_answer(query: str, engine: Engine) -> None:
    expected = batch_answer(query, EVENTS, NexmarkConfig(rate=RATE))
    actual = answer(engine, query, parallelism=2)
    if query == "q12":
        assert _totals(actual) == _totals(expected)
        return
    assert actual.column_names == expected.column_names
    columns = COMPARED_COLUMNS.get(query, tuple(expected.column_names))
    wanted = expected.select(columns).cast(actual.select(columns).schema)
    assert_same_rows(rows_of(actual.select(columns)), rows_of(wanted))


def _totals(table: pa.Table) -> Counter[int]:
    """Bids a bidder, whatever windows of processing time they fell in."""
    totals: Counter[int] = Counter()
    for bidder, count in rows_of(table.select(("bidder", "bid_count"))):
        totals[bidder] += count
    return totals
