"""EXPLAIN ANALYZE tells what operators did, ESTIMATED_COST what they are expected to do, PLAN_ADVICE what holds a plan back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream.client.sessions.outcomes import Text
from sqlstream.client.sessions.session import Session
from sqlstream.client.sessions.target_session import local_session
from sqlstream.errors import UserError
from sqlstream.planner.dialect.parser import parse_script, parse_statement

TABLES = """
CREATE TABLE words (w STRING, n INT) WITH ('connector' = 'filesystem', 'path' = '{path}/w', 'format' = 'csv');
CREATE TABLE made (k INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1000', 'fields.k.max' = '3', 'fields.k.min' = '0');
CREATE TABLE endless (k INT) WITH ('connector' = 'datagen');
CREATE TABLE nowhere (k INT) WITH ('connector' = 'blackhole');
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    path: Path = tmp_path_factory.mktemp("explained")
    (path / "w").mkdir()
    (path / "w" / "a.csv").write_text("a,1\nb,2\na,3\n")
    with local_session() as made:
        for statement in parse_script(TABLES.format(path=path)):
            made.execute(statement)
        yield made


def explained(session: Session, text: str) -> str:
    outcome = session.execute(parse_statement(text))
    assert isinstance(outcome, Text)
    return outcome.text


def test_analyze_tells_the_rows_and_the_state_of_each_operator(session: Session) -> None:
    text = explained(session, "EXPLAIN ANALYZE SELECT w, SUM(n) FROM words WHERE n <> 2 GROUP BY w")
    lines = {line.lstrip("+- :").split("(")[0]: line for line in text.splitlines()}
    assert "[out=3, cpu=" in lines["TableSourceScan"]
    assert "[in=3, out=2, cpu=" in lines["Calc"]
    assert re.search(r"\[in=\d, out=1, cpu=.* ms, state=[1-9]", lines["GlobalGroupAggregate"])
    assert "read 3 rows, 1 rows of changes came to the client" in text
    # The session's settings are as they were.
    assert "sqlstream.metrics.operator-cpu" not in session.config


def test_analyze_adds_up_subtasks_and_runs_inserts_and_batch_queries(session: Session) -> None:
    session.config["parallelism.default"] = "2"
    text = explained(session, "EXPLAIN ANALYZE INSERT INTO nowhere SELECT k FROM made WHERE k < 9")
    session.config.clear()
    assert "[out=1,000, cpu=" in text
    assert "parallelism=2]" in text
    assert "wrote 1,000" in text
    spent = [float(ms) for ms in re.findall(r"cpu=([\d.]+) ms", text)]
    total = re.search(r"took ([\d.,]+) ms", text)
    assert total is not None
    assert sum(spent) == pytest.approx(float(total.group(1)), abs=0.5)
    assert sum(spent) > 0
    session.config["execution.runtime-mode"] = "BATCH"
    assert "Sink: collect: in=2, out=0" in explained(
        session, "EXPLAIN ANALYZE SELECT w, SUM(n) FROM words GROUP BY w"
    )
    session.config.clear()


def test_a_statement_without_an_end_is_not_analyzed(session: Session) -> None:
    with pytest.raises(UserError) as raised:
        explained(session, "EXPLAIN ANALYZE SELECT * FROM endless")
    assert raised.value.code == "SS3523"
    assert raised.value.span is not None


def test_costs_follow_from_the_sizes_of_tables_and_the_shape_of_conditions(session: Session) -> None:
    text = explained(
        session, "EXPLAIN ESTIMATED_COST SELECT * FROM made WHERE k = 1 UNION ALL VALUES (1), (2)"
    )
    section = text.partition("== Estimated Cost ==\n")[2]
    rows = dict(re.findall(r"(\w+)\(.*\): rowcount = ([\d.E+]+)", section))
    assert rows == {"Sink": "152", "Union": "152", "Filter": "150", "TableScan": "1000", "Values": "2"}
    session.config["execution.runtime-mode"] = "BATCH"
    assert "rowcount = 1000," in explained(session, "EXPLAIN ESTIMATED_COST SELECT * FROM made")
    session.config.clear()
    # Of an endless table nothing is known.
    assert "rowcount = 1E+08" in explained(session, "EXPLAIN ESTIMATED_COST SELECT * FROM endless")


def test_advice_names_the_operator_and_the_setting(session: Session) -> None:
    def advice(text: str) -> str:
        return explained(session, f"EXPLAIN PLAN_ADVICE {text}").partition("== Plan Advice ==\n")[2].strip()

    grouped = "SELECT k, COUNT(*) FROM endless GROUP BY k"
    assert re.match(
        r"advice\[1\]: \[WARNING\] the state of GlobalGroupAggregate\(.*\) grows with .*'table.exec.state.ttl'",
        advice(grouped),
    )
    session.config["table.exec.state.ttl"] = "1 h"
    assert advice(grouped).startswith("no advice")
    session.config["table.optimizer.agg-phase-strategy"] = "ONE_PHASE"
    assert "RESET 'table.optimizer.agg-phase-strategy'" in advice(grouped)
    session.config["parallelism.default"] = "4"
    assert "runs in one subtask" in advice("SELECT COUNT(*) FROM endless")
    session.config.clear()
    assert advice("SELECT k FROM endless").startswith("no advice")
    # What ends keeps no more than there is.
    assert advice("SELECT w, COUNT(*) FROM words GROUP BY w").startswith("no advice")
