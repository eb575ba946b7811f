"""SQLAlchemy 2 and pandas, for both ways to connect."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit

import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy import orm

ROWS = [
    {"id": 1, "user": "ann", "price": Decimal("1.50"), "ts": dt.datetime(2024, 1, 1, 1, 2, 3, 4), "ok": True},
    {"id": 2, "user": "bob", "price": None, "ts": None, "ok": None},
]


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(
        f"sqlstream://{urlsplit(url).netloc}" if url != "embedded://" else "sqlstream+embedded://"
    )
    yield engine
    engine.dispose()


@pytest.fixture
def orders(tmp_path: Path, engine: sa.Engine) -> Iterator[sa.Table]:
    """A table with two rows."""
    table = sa.Table(
        f"orders of {tmp_path.name}",
        sa.MetaData(),
        sa.Column("id", sa.BigInteger, primary_key=True),
        sa.Column("user", sa.String, comment="who's"),
        sa.Column("price", sa.Numeric(10, 2)),
        sa.Column("ts", sa.DateTime),
        sa.Column("ok", sa.Boolean),
        sqlstream_with={"connector": "filesystem", "path": str(tmp_path / "orders"), "format": "parquet"},
    )
    with engine.begin() as connection:
        table.create(connection)
        assert connection.execute(table.insert(), ROWS).rowcount == 2
    yield table
    table.drop(engine)


def test_rows_are_inserted_and_selected(engine: sa.Engine, orders: sa.Table) -> None:
    o = orders.c
    with engine.connect() as connection:
        found = connection.execute(sa.select(orders).order_by(o.id)).mappings().all()
        assert [dict(row) for row in found] == ROWS
        query = sa.select(o.user, sa.func.count().label("n")).where(o.id.in_([1, 2, 3])).group_by(o.user)
        assert sorted(connection.execute(query.having(sa.func.count() > 0)).all()) == [("ann", 1), ("bob", 1)]
        assert connection.execute(sa.select(o.id).where(o.id.in_([]))).all() == []
        assert connection.execute(sa.select(o.id).where(o.user.ilike("A%")).limit(1)).scalar_one() == 1
        assert connection.execute(sa.select(o.id).order_by(o.id).limit(1).offset(1)).scalar_one() == 2
        big = sa.select(o.id).where(o.id > 0).cte("big")
        assert connection.execute(sa.select(sa.func.sum(big.c.id))).scalar_one() == 3
        expressions = (
            o.id % 2,
            o.user.is_distinct_from("ann"),
            sa.case((o.ok.is_(True), "y"), else_="n"),
            o.user + "!",
            sa.cast(o.id, sa.Text),
            sa.func.now().is_not(None),
            sa.extract("year", o.ts),
        )
        query = sa.select(*expressions).order_by(o.id)
        expected = [(1, False, "y", "ann!", "1", True, 2024), (0, True, "n", "bob!", "2", True, None)]
        assert connection.execute(query).all() == expected
        copy = sa.insert(orders).from_select(["id", "user"], sa.select(o.id + 10, o.user))
        connection.execute(copy)
        assert connection.execute(sa.select(sa.func.count()).select_from(orders)).scalar_one() == 4


def test_text_takes_parameters_by_name(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        query = sa.text("SELECT :a AS a, '50%' AS b, v FROM (VALUES ('x?'), ('y')) AS t(v) WHERE v LIKE :p")
        parameters = {"a": dt.date(2024, 1, 1), "p": "%?"}
        assert connection.execute(query, parameters).all() == [(dt.date(2024, 1, 1), "50%", "x?")]


def test_tables_are_reflected(engine: sa.Engine, orders: sa.Table) -> None:
    with engine.begin() as connection:
        quoted = engine.dialect.identifier_preparer.quote(orders.name)
        view = f"view of {orders.name}"
        connection.execute(sa.text(f"CREATE VIEW `{view}` AS SELECT id, price FROM {quoted}"))
        inspector = sa.inspect(connection)
        assert inspector.default_schema_name == "default_database"
        assert "default_database" in inspector.get_schema_names()
        assert orders.name in inspector.get_table_names()
        assert view not in inspector.get_table_names()
        assert view in inspector.get_view_names("default_catalog.default_database")
        assert "SELECT id, price" in inspector.get_view_definition(view)
        assert inspector.has_table(orders.name)
        assert inspector.has_table(orders.name, "default_database")
        assert not inspector.has_table("no such table")
        assert inspector.get_pk_constraint(orders.name)["constrained_columns"] == ["id"]
        found = sa.Table(orders.name, sa.MetaData(), autoload_with=connection)
        shapes = [(c.name, str(c.type.compile(engine.dialect)), c.nullable, c.comment) for c in found.columns]
        assert shapes == [
            ("id", "BIGINT", False, None),
            ("user", "STRING", True, "who's"),
            ("price", "DECIMAL(10, 2)", True, None),
            ("ts", "TIMESTAMP(6)", True, None),
            ("ok", "BOOLEAN", True, None),
        ]
        connection.execute(sa.text(f"DROP VIEW `{view}`"))
    with pytest.raises(sa.exc.NoSuchTableError):
        sa.Table("no such table", sa.MetaData(), autoload_with=engine)


def test_pandas_reads_queries_and_tables(engine: sa.Engine, orders: sa.Table) -> None:
    frame = pd.read_sql(sa.select(orders.c.id, orders.c.user).order_by(orders.c.id), engine)
    assert frame.to_dict("list") == {"id": [1, 2], "user": ["ann", "bob"]}
    assert str(frame.dtypes["id"]) == "int64"
    frame = pd.read_sql(f"SELECT ts FROM `{orders.name}` WHERE id = 1", engine)
    assert frame["ts"][0] == pd.Timestamp("2024-01-01 01:02:03.000004")
    assert pd.read_sql_table(orders.name, engine, columns=["id"])["id"].sum() == 3
    chunks = pd.read_sql(f"SELECT id FROM `{orders.name}`", engine, chunksize=1)
    assert [len(chunk) for chunk in chunks] == [1, 1]


def test_sessions_of_the_orm_read(engine: sa.Engine, orders: sa.Table) -> None:
    class Order(orm.declarative_base()):  # type: ignore[misc]
        __table__ = orders

    with orm.Session(engine) as session:
        assert session.scalars(sa.select(Order).where(Order.user == "bob")).one().id == 2
        assert session.get(Order, 1).price == Decimal("1.50")


def test_what_streams_do_not_have_is_refused_before_it_is_sent(engine: sa.Engine, orders: sa.Table) -> None:
    refused = {
        "the dialect compiles no UPDATE": orders.update().values(id=1),
        "the dialect compiles no DELETE": orders.delete(),
        "INSERT returns no rows": orders.insert().values(id=1).returning(orders.c.id),
        "there are no locks": sa.select(orders).with_for_update(),
    }
    with engine.connect() as connection:
        for message, statement in refused.items():
            with pytest.raises(sa.exc.CompileError, match=message):
                connection.execute(statement)
        with pytest.raises(sa.exc.ProgrammingError, match="SS2003"):
            connection.execute(sa.text(f"SELECT nope FROM `{orders.name}`"))
    bare = sa.Table("bare", sa.MetaData(), sa.Column("a", sa.Integer))
    unique = sa.Table(
        "u", sa.MetaData(), sa.Column("a", sa.Integer, unique=True), sqlstream_with={"connector": "print"}
    )
    with pytest.raises(sa.exc.CompileError, match="names no connector"):
        bare.create(engine)
    with pytest.raises(sa.exc.CompileError, match="no UNIQUE"):
        unique.create(engine)


def test_urls_name_token_database_and_settings() -> None:
    dialect = sa.create_engine("sqlstream://").dialect
    cases = {
        "sqlstream://": (["http://localhost:8083"], {}),
        "sqlstream://:secret@h:1/db?parallelism.default=2": (
            ["http://h:1?parallelism.default=2"],
            {"token": "secret"},
        ),
        "sqlstream://[::1]:1": (["http://[::1]:1"], {}),
        "sqlstream://a/db?host=b:2&host=c&x=1": (["http://a:8083,b:2,c?x=1"], {}),
        "sqlstream://?host=b:2": (["http://b:2"], {}),
    }
    for text, expected in cases.items():
        assert dialect.create_connect_args(sa.make_url(text)) == expected
    https = sa.create_engine("sqlstream+https://h").dialect
    assert https.create_connect_args(sa.make_url("sqlstream+https://h"))[0] == ["https://h:8083"]


def test_a_url_begins_in_its_database(server_url: str) -> None:
    where = urlsplit(server_url).netloc
    engine = sa.create_engine(f"sqlstream://{where}")
    with engine.connect() as connection:
        connection.execute(sa.text("CREATE DATABASE IF NOT EXISTS sales"))
    for path in ("sales", "default_catalog/sales"):
        engine = sa.create_engine(f"sqlstream://{where}/{path}")
        with engine.connect() as connection:
            assert connection.execute(sa.text("SHOW CURRENT DATABASE")).scalar_one() == "sales"
        engine.dispose()


def test_a_lost_session_is_replaced_when_pools_ping(server_url: str) -> None:
    engine = sa.create_engine(f"sqlstream://{urlsplit(server_url).netloc}", pool_pre_ping=True)
    with engine.connect() as connection:
        session = connection.connection.dbapi_connection.session  # type: ignore[union-attr]
        first = session._session
        session._client.call("DELETE", f"/v4/sessions/{first}")
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar_one() == 1
        assert connection.connection.dbapi_connection.session._session != first  # type: ignore[union-attr]
    engine.dispose()


def test_every_inspection_answers_and_knows_what_is_not_there() -> None:
    engine = sa.create_engine("sqlstream+embedded://")
    with engine.connect() as connection:
        for statement in (
            "CREATE TABLE t (k INT, n BIGINT COMMENT 'much', CONSTRAINT named PRIMARY KEY (k) NOT ENFORCED)"
            " COMMENT 'of things' WITH ('connector'='blackhole')",
            "CREATE VIEW v COMMENT 'of one' AS SELECT 1 AS a",
            "CREATE TEMPORARY TABLE tt (k INT) WITH ('connector'='blackhole')",
            "CREATE TEMPORARY VIEW tv AS SELECT 2 AS a",
        ):
            connection.exec_driver_sql(statement)
        inspector = sa.inspect(connection)
        assert inspector.get_table_comment("t") == {"text": "of things"}
        assert inspector.get_table_comment("v") == {"text": "of one"}
        assert inspector.get_pk_constraint("t") == {"constrained_columns": ["k"], "name": "named"}
        assert inspector.get_table_options("t") == {"sqlstream_with": {"connector": "blackhole"}}
        assert (inspector.get_temp_table_names(), inspector.get_temp_view_names()) == (["tt"], ["tv"])
        assert inspector.get_materialized_view_names() == inspector.get_sequence_names() == []
        assert not inspector.has_sequence("s")
        names = ("indexes", "unique_constraints", "check_constraints", "foreign_keys")
        lacking = [getattr(inspector, f"get_{name}") for name in names]
        assert [find("t") for find in lacking] == [[], [], [], []]
        for find in (*lacking, inspector.get_table_comment, inspector.get_table_options):
            for missing in (("nothing",), ("t", "nowhere")):
                with pytest.raises(sa.exc.NoSuchTableError):
                    find(*missing)
        with pytest.raises(sa.exc.NoSuchTableError):
            inspector.get_view_definition("t")
        assert not inspector.has_table("t", "nowhere")
        table = sa.Table("t", sa.MetaData(), autoload_with=connection)
        assert (table.comment, table.primary_key.name) == ("of things", "named")
        assert table.dialect_options["sqlstream"]["with"] == {"connector": "blackhole"}
