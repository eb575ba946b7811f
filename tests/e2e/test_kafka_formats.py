"""Every format of whole rows as that of keys and of values of a topic: rows that come and go by key are read as they are left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka_harness import Broker, running_broker, table
from registry_harness import SchemaRegistry, running_registry

from sqlstream.runtime.formats import FORMATS, format_of
from sqlstream.testing.check import rows_of

WHOLE_ROWS = sorted(
    name
    for name in FORMATS
    if format_of(name).descriptor.has_messages
    and not format_of(name).descriptor.reads_events
    # It has one column, and a NULL that is a value.
    and name != "raw"
)
PROTO = 'syntax = "proto3"; message Top { optional string k = 1; optional string v = 2; }'
CHANGES = """INSERT INTO t SELECT k, v FROM (
  SELECT k, MAX(v) AS v, SUM(n) AS n
  FROM (VALUES ('a', 'x', 1), ('b', 'y', 1), ('c', 'ö', 1), ('a', 'z', -1), ('b', 'z', 1)) AS s(k, v, n)
  GROUP BY k) WHERE n > 0"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("kafka")) as started:
        yield started


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with running_registry() as started:
        yield started


@pytest.mark.parametrize("identifier", WHOLE_ROWS)
def test_rows_come_and_go_by_key(identifier: str, broker: Broker, registry: SchemaRegistry) -> None:
    topic = broker.topic()
    options = {k: v for k, v in broker.options(topic).items() if k != "format"}
    options["value.fields-include"] = "EXCEPT_KEY"
    given = {"protobuf": {"message-class-name": "Top", "schema": PROTO}}.get(identifier, {})
    if not format_of(identifier).descriptor.has_files and not given:
        given = {"url": registry.url}
    for side in ("key", "value"):
        options[f"{side}.format"] = identifier
        options |= {f"{side}.{identifier}.{key}": value for key, value in given.items()}
    upserts = {k: v for k, v in options.items() if k != "scan.startup.mode"} | {"connector": "upsert-kafka"}
    by_key = table("t", "k STRING, v STRING, PRIMARY KEY (k) NOT ENFORCED", upserts)
    rows_of([by_key, CHANGES, "SELECT 1"], {"execution.batch-rows": "1"})
    sent = [(m.key() is not None, m.value() is not None) for m in broker.messages(topic)]
    assert (True, False) in sent, "a deletion is a message without a value"
    for config in ({"execution.batch-rows": "1"}, {}):
        assert sorted(rows_of([by_key, "SELECT * FROM t"], config)) == [("b", "z"), ("c", "ö")]
    # A message without a value has no row, whatever its key is.
    each = table("t", "k STRING NOT NULL, v STRING", options | {"key.fields": "k"})
    assert rows_of([each, "SELECT * FROM t"]) == [("a", "x"), ("b", "y"), ("c", "ö"), ("b", "z")]
