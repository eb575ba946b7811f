"""Servers that answer otherwise than tables of HTTP expect: what they choose leads nowhere else, and is told as their fault."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import pytest
from http_harness import TIMEOUT_S, Asked, Reply, first_rows, http_server, rows, table

from sqlstream.client.dbapi.errors import Error
from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.http_addresses import Certificates
from sqlstream.runtime.host.http_client import HttpClient, Request

PATH = {"http.source.rows.path": "items", "http.source.cursor.path": "next"}
COLUMN = {"http.source.cursor.column": "n"}


def page(items: list[Any], following: Any) -> Reply:
    return Reply.json({"items": items, "next": following})


def sse_table(at: str, columns: str = "n BIGINT", **options: str) -> str:
    return table(at, columns, **{"connector": "sse", **options})


def events(*parts: bytes) -> Reply:
    return Reply(headers={"Content-Type": "text/event-stream"}, parts=iter(parts))


# --- pages


@pytest.mark.parametrize("empty", [[], [{"n": "x"}]])
def test_a_page_without_rows_is_not_the_end_while_it_says_how_to_go_on(empty: list[Any]) -> None:
    pages = {None: page([{"n": 1}], "b"), "b": page(empty, "c"), "c": page([{"n": 3}], None)}
    with http_server(lambda asked: pages[asked.parameters.get("cursor")]) as server:
        declared = table(server.url, **PATH, **{"json.ignore-parse-errors": "true"})
        assert rows(declared, "SELECT * FROM t") == [(1,), (3,)]


@pytest.mark.parametrize("following", ["b", "/more"])
def test_the_last_page_is_asked_again_for_its_new_rows_alone(following: str) -> None:
    def reply(asked: Asked) -> Reply:
        if asked.parameters.get("cursor") != "b" and asked.path != "/more":
            return page([{"n": 1}], following)
        return page([{"n": n} for n in range(2, min(3 + len(server.asked) // 3, 6))], None)

    with http_server(reply) as server:
        declared = table(server.url, **PATH, **{"http.source.poll.interval": "5 ms"})
        assert first_rows(4, declared, "SELECT * FROM t") == [(1,), (2,), (3,), (4,)]


def test_a_page_that_is_empty_and_names_itself_is_the_last_one() -> None:
    with http_server(lambda asked: page([{"n": 1}] if not asked.parameters else [], "b")) as server:
        assert rows(table(server.url, **PATH), "SELECT * FROM t") == [(1,)]


def test_rows_of_which_none_says_where_to_go_on_are_not_an_end() -> None:
    with http_server(lambda asked: Reply(b'[{"n": "x"}]')) as server, pytest.raises(Error) as raised:
        rows(table(server.url, **COLUMN, **{"json.ignore-parse-errors": "true"}), "SELECT * FROM t")
    assert raised.value.code == "SS5347"


# --- other servers


def test_a_link_to_another_server_is_followed_without_the_headers_of_the_table() -> None:
    with http_server(lambda asked: Reply.json([{"n": 2}])) as other:
        for options, value, link in (
            ({}, [{"n": 1}], {"Link": f'<{other.url}/there>; rel="next"'}),
            (PATH, {"items": [{"n": 1}], "next": f"{other.url}/there"}, {}),
        ):
            other.asked.clear()
            answer = Reply.json(value, **link)
            other.reply = lambda asked, o=options: page([{"n": 2}], None) if o else Reply.json([{"n": 2}])  # type: ignore[misc]
            with http_server(lambda asked, a=answer: a) as server:  # type: ignore[misc]
                declared = table(server.url, **options, **{"http.source.header.X-Key": "hunter22"})
                assert rows(declared, "SELECT * FROM t") == [(1,), (2,)]
                assert server.asked[0].headers["x-key"] == "hunter22"
            assert "x-key" not in other.asked[0].headers


def test_events_go_on_from_the_last_one_behind_a_redirection_too() -> None:
    def reply(asked: Asked) -> Reply:
        if asked.headers.get("last-event-id") == "7":
            return Reply(status=204)
        return events(b"retry: 1\nid: 7\ndata: 1\n\n")

    with http_server(reply) as other:
        moved = Reply(status=307, headers={"Location": f"{other.url}/events"})
        with http_server(lambda asked: moved) as server:
            declared = sse_table(
                server.url, format="raw", columns="v STRING", **{"sse.header.X-Key": "hunter22"}
            )
            assert rows(declared, "SELECT * FROM t") == [("1",)]
            assert [a.headers.get("x-key") for a in server.asked] == ["hunter22"] * 2
        assert [a.headers["accept"] for a in other.asked] == ["text/event-stream"] * 2
        assert all("x-key" not in a.headers for a in other.asked)


# --- answers of all kinds

DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    ("reply", "options"),
    [
        (Reply(DEEP), {}),
        (Reply(b'[{"n": ' + DEEP), {}),
        (Reply(b'{"items": ' + DEEP), PATH),
        (Reply(b'{"items": [{"n": 1}], "next": ' + DEEP), PATH),
        (Reply(b"[]", headers={"Link": '</\xe9>; rel="next"'}), {}),
        (Reply(b"[]", headers={"Link": '<ftp://example.org/>; rel="next"'}), {}),
        (Reply(b"[]", headers={"Link": '<http://[/>; rel="next"'}), {}),
        (page([{"n": 1}], "/é"), PATH),
        (page([{"n": 1}], "http://example.org:99999/"), PATH),
        (Reply(status=302, headers={"Location": "/\xe9"}), {}),
        (Reply(status=302, headers={"Location": "ftp://example.org/"}), {}),
        (events(b"id: a\x01\ndata: 1\n\n"), {"connector": "sse"}),
        (events(b"data: " + DEEP + b"\n\n"), {"connector": "sse"}),
    ],
)
def test_what_no_table_can_follow_is_the_fault_of_the_server(reply: Reply, options: dict[str, str]) -> None:
    with http_server(lambda asked: reply) as server, pytest.raises(Error) as raised:
        rows(table(server.url, **options), "SELECT * FROM t")
    assert raised.value.code in ("SS5344", "SS5346")


def test_a_tag_beyond_ascii_is_sent_as_it_came() -> None:
    def reply(asked: Asked) -> Reply:
        if len(server.asked) > 3:
            return Reply.json([{"n": 2}])
        return (
            Reply(status=304)
            if asked.headers.get("if-none-match") == '"\xe9"'
            else Reply.json([{"n": 1}], ETag='"\xe9"')
        )

    with http_server(reply) as server:
        declared = table(server.url, **{"http.source.poll.interval": "5 ms"})
        assert first_rows(2, declared, "SELECT * FROM t") == [(1,), (2,)]


@pytest.mark.parametrize(
    ("field", "sent"),
    [
        ("id: é", "é".encode().decode("latin-1")),
        ("id: 7\nretry: 0", "7"),
        ("id: 7\nretry: " + "0" * 5000, "7"),
        ("id: 7\n\nid: a\0b", "7"),
    ],
)
def test_events_go_on_from_an_id_of_any_letters(field: str, sent: str) -> None:
    def reply(asked: Asked) -> Reply:
        if len(server.asked) > 1:
            return Reply(status=204)
        return events(field.encode() + b'\ndata: {"n": 1}\n\n')

    with http_server(reply) as server:
        assert rows(sse_table(server.url), "SELECT * FROM t") == [(1,)]
        assert server.asked[1].headers["last-event-id"] == sent


def test_an_abort_ends_a_handshake_of_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = HttpClient(LocalFiles(), Certificates(), TIMEOUT_S, 1 << 20)
        failures: list[ExternalError | UserError] = []

        def call() -> None:
            try:
                client.call(Request("GET", f"https://127.0.0.1:{silent.getsockname()[1]}/"))
            except (ExternalError, UserError) as error:
                failures.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        accepted, _ = silent.accept()
        with accepted:
            # The first bytes of the handshake: from here on the client waits for ours.
            assert accepted.recv(1)
            client.abort()
            thread.join(5)
            assert not thread.is_alive()
        client.close()
    assert [f.code for f in failures] == ["SS5342"]


def test_messages_of_a_websocket_are_rows_until_it_is_closed() -> None:
    from websockets.sync.server import ServerConnection, serve

    def send(connection: ServerConnection) -> None:
        for number in range(5):
            connection.send(json.dumps({"n": number}))

    with serve(send, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        at = f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        found = rows(table(at, connector="websocket"), "SELECT * FROM t")
        server.shutdown()
        thread.join(TIMEOUT_S)
    assert found == [(n,) for n in range(5)]


@pytest.mark.parametrize(("status", "code"), [(403, "SS5343"), (404, "SS5344"), (503, "SS5342")])
def test_a_status_means_the_same_for_all_tables(status: int, code: str) -> None:
    with http_server(lambda asked: Reply(status=status)) as server:
        for connector, at in (
            ("http", server.url),
            ("sse", server.url),
            ("websocket", server.url.replace("http", "ws", 1)),
        ):
            more = {"http": {"http.source.max-retries": "0"}, "sse": {"sse.max-retries": "0"}}.get(
                connector, {}
            )
            with pytest.raises(Error) as raised:
                rows(table(at, connector=connector, **more), "SELECT * FROM t")
            assert raised.value.code == code, connector
