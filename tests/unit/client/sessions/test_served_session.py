"""In a session of a server, users do not decide how the Spark that they share starts."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sqlstream.client.sessions.session import Session
from sqlstream.errors import UserError
from sqlstream.planner.dialect.parser import parse_script


def run(session: Session, text: str) -> Any:
    return [session.execute(statement) for statement in parse_script(text)]


@pytest.mark.parametrize("key", ["spark.master", "spark.driver.extraJavaOptions", "spark.sql.extensions"])
def test_what_spark_starts_with_is_the_server_s(key: str) -> None:
    session = Session(cast("Any", None), {key: "of the server"}, is_served=True)
    with pytest.raises(UserError) as caught:
        run(session, f"SET '{key}' = 'mine'")
    assert caught.value.code == "SS4055"
    assert caught.value.hint.endswith(f"-D {key}=VALUE")
    assert session.config[key] == "of the server"
    run(session, f"RESET '{key}'")
    assert session.config[key] == "of the server"


def test_settings_of_statements_are_the_user_s() -> None:
    session = Session(cast("Any", None), is_served=True)
    run(session, "SET 'spark.sql.shuffle.partitions' = '3'")
    assert session.config["spark.sql.shuffle.partitions"] == "3"


def test_in_a_session_of_one_s_own_all_can_be_set() -> None:
    session = Session(cast("Any", None))
    run(session, "SET 'spark.master' = 'spark://node1:7077'")
    assert session.config["spark.master"] == "spark://node1:7077"


@pytest.mark.parametrize(
    ("text", "underlined"),
    [
        ("CREATE TABLE t (a INT, m MAP<INT, INT>) WITH (%s)", "m MAP<INT, INT>"),
        ("CREATE TABLE t (a INT) WITH (%s); ALTER TABLE t ADD m MAP<INT, INT>", "m MAP<INT, INT>"),
    ],
)
def test_a_column_that_a_format_cannot_carry_is_underlined(text: str, underlined: str) -> None:
    session = Session(cast("Any", None))
    text %= "'connector' = 'filesystem', 'path' = '/nowhere', 'format' = 'csv'"
    with pytest.raises(UserError, match='column "m"') as caught:
        run(session, text)
    assert caught.value.span is not None
    assert text[caught.value.span.start : caught.value.span.end] == underlined
