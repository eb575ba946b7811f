"""The conformance kit on connectors, formats, types of catalogs and functions: those of a guest package, and ours."""

from __future__ import annotations

import contextlib
import functools
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_harness import TIMEOUT_S
from http_harness import Asked, Reply, http_server
from installed_packages import GUEST, install

from sqlstream.testing import CatalogCase, Check, ConnectorCase, FormatCase, checks

COLUMNS = {"n": "BIGINT", "name": "STRING"}
VALUES = ("NULLIF(n, 3)", "'row ' || CAST(n AS STRING)")
ROWS = ((1, "a"), (None, "b"), (-5, None), (2**40, "ö"), (7, "x y"))


def _numbers(place: Path) -> dict[str, str]:
    return {"number-of-rows": "23", "fields.n.kind": "sequence", "fields.n.start": "0", "fields.n.end": "22"}


def _in_sqlite(place: Path) -> dict[str, str]:
    with contextlib.closing(sqlite3.connect(place / "data.sqlite")) as database:
        database.execute("CREATE TABLE IF NOT EXISTS t (n BIGINT, name TEXT)")
    return {"url": f"jdbc:sqlite:{place / 'data.sqlite'}", "table-name": "t"}


SENT = tuple((n, f"row {n}") for n in range(23))


@functools.cache
def _sender() -> socket.socket:
    """Sends the rows to whoever connects."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            connection, _ = server.accept()
            with connection:
                connection.sendall("".join(f"{n},{name}\n" for n, name in SENT).encode())

    threading.Thread(target=serve, daemon=True).start()
    return server


@functools.cache
def _kept() -> str:
    """The address of a server that keeps what is sent to a path, each request once by its key, and gives it in pages of links."""
    sent: dict[str, dict[str, bytes]] = {}

    def reply(asked: Asked) -> Reply:
        kept = sent.setdefault(asked.path, {})
        if asked.method == "POST":
            kept.setdefault(asked.headers["idempotency-key"], asked.body)
            return Reply()
        page = int(asked.parameters.get("page", "0"))
        bodies = list(kept.values())
        more = {"link": f'<{asked.path}?page={page + 1}>; rel="next"'} if page + 1 < len(bodies) else {}
        return Reply(bodies[page] if page < len(bodies) else b"[]", headers=more)

    return _ALWAYS.enter_context(http_server(reply)).url


_ALWAYS = contextlib.ExitStack()


@pytest.fixture(scope="module", autouse=True)
def _servers_end() -> Iterator[None]:
    with _ALWAYS:
        yield
    _kept.cache_clear()
    _events.cache_clear()


def _over_http(place: Path) -> dict[str, str]:
    return {
        "url": f"{_kept()}{place}",
        "format": "json",
        "http.sink.request.batch.size": "400",
        "sink.delivery-guarantee": "exactly-once",
        "sink.staging-directory": str(place / "staging"),
    }


@functools.cache
def _events() -> str:
    """The address of a server that sends the rows as events, some with each answer."""

    def reply(asked: Asked) -> Reply:
        first = int(asked.headers.get("last-event-id", "-1")) + 1
        sent = [f"retry: 1\nid: {n}\ndata: {n},{name}\n\n" for n, name in SENT[first : first + 9]]
        kind = {"content-type": "text/event-stream"}
        return Reply("".join(sent).encode(), headers=kind) if sent else Reply(status=204)

    return _ALWAYS.enter_context(http_server(reply)).url


@functools.cache
def _messages() -> str:
    """The address of a server that sends the rows over a WebSocket."""
    from websockets.sync.server import serve

    server = serve(lambda c: [c.send(f"{n},{name}") for n, name in SENT], "127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"ws://127.0.0.1:{server.socket.getsockname()[1]}"


def _sent(place: Path) -> dict[str, str]:
    return {"hostname": "127.0.0.1", "port": str(_sender().getsockname()[1]), "format": "csv"}


OURS = checks(
    ConnectorCase("datagen", {"n": "BIGINT"}, _numbers, rows=tuple((n,) for n in range(23))),
    ConnectorCase(
        "faker",
        COLUMNS,
        lambda place: {
            "number-of-rows": "23",
            "fields.n.expression": "7",
            "fields.name.expression": "row #{options.option 'a'}",
        },
        rows=((7, "row a"),) * 23,
        refused=(
            ({"fields.n.expression": "#{no.such}"}, "SS4002"),
            ({"fields.n.expression": "seven"}, "SS4002"),
            ({"fields.n.length": "2"}, "SS4003"),
            ({"lookup.cache": "FULL"}, "SS4003"),
        ),
    ),
    ConnectorCase(
        "filesystem",
        COLUMNS,
        lambda place: {"path": str(place / "files"), "format": "json"},
        VALUES,
        refused=(({"format": "nonsense"}, "SS4004"),),
    ),
    ConnectorCase(
        "duckdb", COLUMNS, lambda place: {"path": str(place / "data.db"), "table-name": "t"}, VALUES
    ),
    ConnectorCase(
        "jdbc",
        COLUMNS,
        _in_sqlite,
        VALUES,
    ),
    ConnectorCase("blackhole", COLUMNS, lambda place: {}),
    ConnectorCase("print", COLUMNS, lambda place: {}, refused=(({"sink.parallelism": "0"}, "SS4002"),)),
    ConnectorCase(
        "nexmark",
        {"auction": "BIGINT", "extra": "STRING"},
        lambda place: {"nexmark.table": "bid", "nexmark.events": "0"},
        refused=(({"nexmark.table": "bids"}, "SS4002"),),
    ),
    FormatCase("avro", COLUMNS, ROWS, {"timestamp_mapping.legacy": "false"}, ("MAP<INT, INT>",)),
    ConnectorCase(
        "socket",
        COLUMNS,
        _sent,
        rows=SENT,
        refused=(({"port": "65536"}, "SS4002"), ({"format": "parquet"}, "SS4003")),
    ),
    ConnectorCase(
        "http",
        COLUMNS,
        _over_http,
        VALUES,
        refused=(({"url": "ftp://a/"}, "SS4002"), ({"format": "parquet"}, "SS4003")),
    ),
    ConnectorCase("http-sink", COLUMNS, lambda place: {"url": "http://localhost/", "format": "json"}),
    ConnectorCase(
        "sse",
        COLUMNS,
        lambda place: {"url": _events(), "format": "csv"},
        rows=SENT,
        refused_columns=("MAP<STRING, INT>",),
    ),
    ConnectorCase("websocket", COLUMNS, lambda place: {"url": _messages(), "format": "csv"}, rows=SENT),
    FormatCase("csv", COLUMNS, ROWS[:1] + ROWS[3:], refused_columns=("MAP<STRING, INT>",)),
    FormatCase("json", COLUMNS, ROWS),
    FormatCase("orc", COLUMNS, ROWS, {"compress": "ZSTD"}, ("TIME(3)", "ARRAY<TIME(0)>")),
    FormatCase("parquet", COLUMNS, ROWS),
    FormatCase("raw", {"line": "STRING"}, (("a",), ("ö b",), ("c",)), refused_columns=("INT",)),
    CatalogCase("generic_in_memory"),
    CatalogCase(
        "file", lambda place: {"path": str(place / "kept")}, is_kept=True, refused=(({"path": ""}, "SS4002"),)
    ),
)


@pytest.mark.parametrize("check", [check for check in OURS if not check.is_slow], ids=str)
def test_ours(check: Check, tmp_path: Path) -> None:
    check(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("check", [check for check in OURS if check.is_slow], ids=str)
def test_ours_with_processes_that_are_killed(check: Check, tmp_path: Path) -> None:
    check(tmp_path)


GUESTS = """
import sys, tempfile
from pathlib import Path
from sqlstream.testing import CatalogCase, ConnectorCase, FormatCase, FunctionCase, checks

for check in checks(
    ConnectorCase(
        "ledger",
        {"n": "BIGINT", "name": "STRING"},
        lambda place: {"path": str(place / "book"), "pages": "5"},
        ("NULLIF(n, 3)", "'row ' || CAST(n AS STRING)"),
        refused=(({"pages": "0"}, "SS4002"), ({"path": ""}, "SS4002")),
    ),
    FormatCase(
        "pipes",
        {"n": "BIGINT", "name": "STRING"},
        ((1, "a"), (None, "b"), (-5, None), (7, "x y")),
        refused_columns=("DOUBLE", "ARRAY<INT>"),
        broken=((b"1|a\\nx|b\\n2\\n3|c\\n", (2, 3), ((1, "a"), (3, "c"))),),
    ),
    CatalogCase("shelf", lambda place: {"databases": "one, two"}),
    FunctionCase("cents", "n, d", ("1, CAST(1.25 AS DECIMAL(18, 2))", "2, NULL"), (("cents(d)", [125, None]),)),
    FunctionCase("spread", "n", ("1", "9", "NULL"), (("spread(n)", 8),), is_aggregate=True),
):
    if str(check) in sys.argv[1:] or not check.is_slow and not sys.argv[1:]:
        with tempfile.TemporaryDirectory() as place:
            check(Path(place))
        print(check)
"""


def _check_guests(packages: Path, *words: str) -> list[str]:
    import os

    from command_harness import ROOT, environment

    done = subprocess.run(
        [sys.executable, "-c", GUESTS, *words],
        env=environment(PYTHONPATH=os.pathsep.join([str(ROOT), str(packages)])),
        cwd=packages,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_a_guest_package_passes(tmp_path: Path) -> None:
    passed = _check_guests(install(GUEST, tmp_path))
    ledger = ("options", "types", "split", "restore", "rescale", "commit", "abort", "died commit")
    pipes = ("round trip", "columns", "restore", "types", "options", "errors", "tables")
    assert passed == [
        *(f"ledger: {name}" for name in ledger),
        *(f"pipes: {name}" for name in pipes),
        *(f"shelf: {name}" for name in ("options", "statements", "changes", "threads")),
        *(f"{function}: {name}" for function in ("cents", "spread") for name in ("examples", "errors")),
    ]


@pytest.mark.slow
def test_a_guest_sink_survives_the_kill_of_a_task_manager(tmp_path: Path) -> None:
    assert _check_guests(install(GUEST, tmp_path), "ledger: kill") == ["ledger: kill"]
