"""What Flink's own SQL Client says to a gateway, said to ours: the answers have the same shapes."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_harness import TIMEOUT_S, gateway_server

RECORDING = Path(__file__).parent / "recordings" / "flink_sql_client_2.3.txt"
EXCHANGE = re.compile(
    r"^#### (?P<number>\d+) .*\n> (?P<method>\w+) (?P<path>\S+) HTTP/1.1\n>\n(?P<request>.*?)"
    r"< HTTP/1.1 (?P<status>\d+) .*\n<\n(?P<answer>.*)\n",
    re.MULTILINE | re.DOTALL,
)
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
RESULT = re.compile(r"/operations/([^/]+)/result/(\d+)")
SLOW, FAST = (
    "WITH ('connector'='datagen','rows-per-second'='5')",
    "WITH ('connector'='datagen','rows-per-second'='500')",
)
"""The recorded table without an end, and one that fills the pages that are recorded of it sooner."""
VALUES_OF_A_PRODUCT = ("productName", "version")


@dataclasses.dataclass(frozen=True)
class Exchange:
    number: str
    method: str
    path: str
    request: str
    status: int
    answer: dict[str, Any]


def exchanges() -> list[Exchange]:
    found = []
    for part in re.split(r"(?=^#### \d)", RECORDING.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        match = EXCHANGE.match(part.split("\n   ... ")[0].split("\n\n\n")[0].rstrip() + "\n")
        assert match is not None, part
        found.append(
            Exchange(
                match["number"],
                match["method"],
                match["path"],
                match["request"].strip(),
                int(match["status"]),
                json.loads(match["answer"].split("\n")[0]),
            )
        )
    return found


class Replay:
    """Sends recorded requests under our handles. State: our handle for each recorded one; the token of each operation's next
    page, and the rows fetched and recorded so far."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._handles: dict[str, str] = {}
        self._tokens: dict[str, int] = {}
        self._rows: dict[str, list[Any]] = {}
        self._recorded_rows: dict[str, list[Any]] = {}

    def send(self, exchange: Exchange) -> None:
        result = RESULT.search(exchange.path)
        if result is not None:
            self._fetch(exchange, result[1])
            return
        answer = self._send(exchange, exchange.path)
        if "properties" in exchange.answer:
            # The recording has a part of the configuration.
            assert list(answer.json()) == ["properties"]
            assert exchange.answer["properties"].items() <= answer.json()["properties"].items()
        elif exchange.status == 200:
            self._learn(exchange.answer, answer.json())
            assert shape(answer.json()) == shape(self._translated(exchange.answer))
        else:
            assert_same_errors(answer, exchange)

    def _send(self, exchange: Exchange, path: str) -> httpx.Response:
        content = exchange.request.replace(SLOW, FAST)
        answer = self._http.request(
            exchange.method, self._own(path), content=content, headers={"connection": "close"}
        )
        assert answer.status_code == exchange.status, (exchange, answer.text)
        assert answer.headers["content-type"] == "application/json"
        return answer

    def _own(self, text: str) -> str:
        """The text with our handles."""
        return UUID.sub(lambda match: self._handles[match[0]], text)

    def _translated(self, answer: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._own(json.dumps(answer)))
        return found

    def _learn(self, recorded: dict[str, Any], own: dict[str, Any]) -> None:
        for name in ("sessionHandle", "operationHandle"):
            if name in recorded:
                assert UUID.fullmatch(own[name])
                self._handles[recorded[name]] = own[name]

    def _fetch(self, exchange: Exchange, operation: str) -> None:
        """Fetch as many pages as show what the recorded one does: their number depends on time."""
        recorded = exchange.answer
        while True:
            token = self._tokens.get(operation, 0)
            path = RESULT.sub(f"/operations/{operation}/result/{token}", exchange.path)
            answer = self._http.request("GET", self._own(path), content=exchange.request)
            if recorded.get("resultType") == "NOT_READY" and answer.status_code == 200:
                break
            assert answer.status_code == exchange.status, (exchange, answer.text)
            if exchange.status != 200:
                assert_same_errors(answer, exchange)
                return
            page = answer.json()
            if page["resultType"] == "NOT_READY":
                assert list(page) == ["resultType", "nextResultUri"]
                continue
            self._take(operation, page)
            # Ours may be at the end when the recorded one has empty pages to come.
            if page["resultType"] in (recorded["resultType"], "EOS"):
                break
        if recorded["resultType"] == "NOT_READY":
            # It may be ready here: the token is not counted, and the page comes again.
            return
        self._recorded_rows.setdefault(operation, []).extend(recorded["results"]["data"])
        assert head(page) == head(recorded)
        if recorded["resultType"] == "EOS":
            self._assert_same_rows(operation)

    def _take(self, operation: str, page: dict[str, Any]) -> None:
        if page["resultType"] == "PAYLOAD":
            token = self._tokens[operation] = self._tokens.get(operation, 0) + 1
            own = self._handles[operation]
            assert page["nextResultUri"].endswith(f"/operations/{own}/result/{token}?rowFormat=PLAIN_TEXT")
        self._rows.setdefault(operation, []).extend(page["results"]["data"])

    def _assert_same_rows(self, operation: str) -> None:
        own, recorded = self._rows.get(operation, []), self._recorded_rows[operation]
        assert {shape(row) for row in own} == {shape(row) for row in recorded}
        if all(len(row["fields"]) == 1 for row in recorded):
            assert final_rows(own) == final_rows(recorded)
        # Results that change do so once for all rows that come together.
        if all(row["kind"] == "INSERT" for row in recorded):
            assert len(own) == len(recorded)


def head(page: dict[str, Any]) -> dict[str, Any]:
    """What a page says of its result, in order: all but its rows, what depends on ids, and whether it is the last."""
    assert ("nextResultUri" in page) == (page["resultType"] == "PAYLOAD")
    results = [(k, v if k != "data" else "rows") for k, v in page["results"].items()]
    members = [k for k in page if k != "nextResultUri"]
    return {"members": members, "results": results, **{k: page[k] for k in ("isQueryResult", "resultKind")}}


def shape(value: Any) -> Any:
    """A JSON value with its members, in order, and its constants, without texts that depend on ids."""
    if isinstance(value, dict):
        return tuple((k, "…" if k in VALUES_OF_A_PRODUCT else shape(v)) for k, v in value.items())
    if isinstance(value, list):
        return tuple(shape(v) for v in value)
    if isinstance(value, str):
        return value if value.isupper() or value.startswith("V") else "text"
    return value


def final_rows(changes: list[dict[str, Any]]) -> list[Any]:
    """The rows that are left of a changelog."""
    left: list[Any] = []
    for change in changes:
        if change["kind"] in ("INSERT", "UPDATE_AFTER"):
            left.append(change["fields"])
        else:
            left.remove(change["fields"])
    return left


def assert_same_errors(answer: httpx.Response, exchange: Exchange) -> None:
    own, recorded = answer.json(), exchange.answer
    assert list(own) == list(recorded) == ["errors"]
    assert len(own["errors"]) == len(recorded["errors"])
    if len(recorded["errors"]) == 2:
        assert own["errors"][0] == recorded["errors"][0] == "Internal server error."
        for text in (own["errors"][1], recorded["errors"][1]):
            assert text.startswith("<Exception on server side:\n")
            assert text.endswith("\nEnd of exception on server side>")
            assert "Failed to fetchResults.\nCaused by: " in text
    for words in ("Not found: /v5/info", "Failed to cancelOperation.", "from FINISHED to CANCELED for"):
        assert (words in own["errors"][0]) == (words in recorded["errors"][0])


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with (
        gateway_server(shares_catalogs=False) as server,
        httpx.Client(base_url=server.url, timeout=TIMEOUT_S) as client,
    ):
        yield client


def test_the_recording_is_answered_as_flink_answers_it(http: httpx.Client) -> None:
    replay, recorded = Replay(http), exchanges()
    assert len(recorded) > 80
    for exchange in recorded:
        replay.send(exchange)
