"""Which statements join as of a row time, and what they read."""

from __future__ import annotations

import pytest
from plan_harness import compile_script

from sqlstream.errors import UserError
from sqlstream.planner.physical.node import PhysicalNode, walk_plan
from sqlstream.runtime import connectors, formats
from sqlstream.specs import TemporalJoinSpec

DDL = """
CREATE TABLE o (id INT, k INT, big BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
CREATE TABLE rates (k INT, region STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts,
  PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'stream');
CREATE TABLE regional (k INT, region STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts,
  PRIMARY KEY (k, region) NOT ENFORCED) WITH ('connector' = 'stream');
CREATE TABLE plain (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
CREATE TABLE zoned (k INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector' = 'stream');
CREATE VIEW latest AS SELECT k, v + 1 AS v, ts FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM plain) WHERE n = 1 AND v > 3;
CREATE VIEW first AS SELECT k, v FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM plain) WHERE n = 1;
CREATE VIEW two AS SELECT k, v FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM plain) WHERE n <= 2;
CREATE VIEW numbered AS SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM plain;
CREATE VIEW counted AS SELECT k, COUNT(*) AS id, MAX(ts) AS ts FROM plain GROUP BY k;
"""


def spec_of(query: str) -> TemporalJoinSpec:
    (compiled,) = compile_script(DDL + query)
    (spec,) = [n.spec for n in walk_plan(compiled.physical) if isinstance(n.spec, TemporalJoinSpec)]
    return spec


def test_the_keys_are_those_of_the_table_and_further_conditions_are_asked_of_the_version() -> None:
    spec = spec_of(
        "SELECT o.id, r.v FROM o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k AND o.id < r.v"
    )
    assert (spec.left_keys, spec.right_keys, str(spec.condition)) == ((1,), (0,), "($0 < $4)")


def test_a_key_of_several_columns_needs_them_all_in_any_order() -> None:
    spec = spec_of(
        "SELECT o.id FROM o JOIN regional FOR SYSTEM_TIME AS OF o.ts AS r"
        " ON r.region = CAST(o.id AS STRING) AND o.k = r.k"
    )
    assert (len(spec.left_keys), spec.condition) == (2, None)


def test_a_key_may_be_compared_with_a_wider_integer() -> None:
    spec = spec_of("SELECT o.id, r.v FROM o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.big = r.k")
    assert (len(spec.left_keys), spec.condition) == (1, None)


def test_a_filter_of_a_view_does_not_drop_versions() -> None:
    (compiled,) = compile_script(
        DDL
        + "SELECT o.id, r.v FROM o LEFT JOIN latest FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k WHERE o.id > 1"
    )
    nodes = [n for n in walk_plan(compiled.physical) if isinstance(n.spec, TemporalJoinSpec)]
    (spec,) = [n.spec for n in nodes]
    assert isinstance(spec, TemporalJoinSpec)
    assert spec.condition is not None
    assert "$is_valid" in nodes[0].description
    assert "v > 3" in nodes[0].inputs[1].node.description


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("SELECT 1 FROM o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.k < r.k", "SS3410", "k is missing"),
        ("SELECT 1 FROM o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k + 1", "SS3410", "k is missing"),
        ("SELECT 1 FROM o JOIN regional FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k", "SS3410", "region is missing"),
        ("SELECT 1 FROM o JOIN plain FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k", "SS3411", "no versions"),
        ("SELECT 1 FROM o JOIN first FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k", "SS3411", "no versions"),
        ("SELECT 1 FROM o JOIN two FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k", "SS3411", "no versions"),
        ("SELECT 1 FROM o JOIN numbered FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k", "SS3411", "no versions"),
        ("SELECT 1 FROM o JOIN counted FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k", "SS3411", "no versions"),
        ("SELECT 1 FROM o JOIN zoned FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k", "SS2010", "TIMESTAMP_LTZ"),
        ("SELECT 1 FROM o RIGHT JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k", "SS3001", "RIGHT JOIN with"),
        ("SELECT 1 FROM o SEMI JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k", "SS3001", "SEMI JOIN with"),
        (
            "SELECT 1 FROM (SELECT a.ts, a.k FROM o a JOIN plain b ON a.k = b.k) j"
            " JOIN rates FOR SYSTEM_TIME AS OF j.ts AS r ON j.k = r.k",
            "SS3412", "needs the watermark",
        ),
    ],
)  # fmt: skip
def test_what_has_no_versions_or_no_whole_key_is_refused(query: str, code: str, words: str) -> None:
    with pytest.raises(UserError) as failure:
        compile_script(DDL + query)
    assert (failure.value.code, failure.value.span is not None) == (code, True)
    assert words in failure.value.message


CHANGES = (
    DDL
    + """
CREATE TABLE changed (k INT, region STRING, v INT, ts TIMESTAMP(3), wide AS v + 1, WATERMARK FOR ts AS ts,
  PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'filesystem', 'path' = '/c', 'format' = 'json',
  'changelog.mode' = 'upsert', 'changelog.op-column' = 'op', 'source.monitor-interval' = '1 s');
CREATE TABLE bare (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (k) NOT ENFORCED) WITH (
  'connector' = 'filesystem', 'path' = '/c', 'format' = 'json', 'changelog.mode' = 'upsert',
  'source.monitor-interval' = '1 s');
CREATE VIEW last_changed AS SELECT k, v FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM changed) WHERE n = 1;
"""
)


def changes_of(query: str, mode: str = "upsert") -> list[PhysicalNode]:
    (compiled,) = compile_script(
        CHANGES.replace("'upsert', 'changelog.op", f"'{mode}', 'changelog.op") + query,
        connectors=dict(connectors.descriptors()),
        formats=dict(formats.descriptors()),
    )
    return list(walk_plan(compiled.physical))


@pytest.mark.parametrize("mode", ["upsert", "retract"])
def test_changes_are_versions_as_they_come_with_the_columns_that_are_needed(mode: str) -> None:
    nodes = changes_of(
        "SELECT o.id, r.wide FROM o LEFT JOIN changed FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k WHERE r.wide > 2",
        mode,
    )
    (join,) = [n for n in nodes if isinstance(n.spec, TemporalJoinSpec)]
    assert isinstance(join.spec, TemporalJoinSpec)
    versions = join.inputs[1].node.schema.names
    assert (versions, join.spec.right_valid_column) == (("k", "wide", "$version_time", "$is_valid"), 3)
    assert not any("ChangelogNormalize" in n.name for n in nodes)
    (source,) = [n for n in nodes if n.name == "Source: changed"]
    assert (source.schema.names, source.parallelism) == (("k", "v", "ts"), 1)


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("SELECT 1 FROM o JOIN bare FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k", "SS3411", "nothing but its key"),
        ("SELECT 1 FROM o JOIN last_changed FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k", "SS3411", "take back"),
        ("SELECT 1 FROM changed AS o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k", "SS3011", "consuming update"),
    ],
)  # fmt: skip
def test_changes_that_do_not_tell_their_versions_are_refused(query: str, code: str, words: str) -> None:
    with pytest.raises(UserError) as failure:
        changes_of(query)
    assert (failure.value.code, failure.value.span is not None) == (code, True)
    assert words in failure.value.message


def test_only_the_columns_that_are_needed_are_read() -> None:
    query = "SELECT o.id FROM o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k"
    (compiled,) = compile_script(DDL + query)
    (join,) = [n for n in walk_plan(compiled.physical) if isinstance(n.spec, TemporalJoinSpec)]
    assert [i.node.schema.names for i in join.inputs] == [("id", "k", "ts"), ("k", "ts")]
