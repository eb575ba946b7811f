"""Requests to a table of connector `webhook`: what is kept of those that wait, and of those that were given up."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator

import pytest
from http_harness import TIMEOUT_S, source_spec, table_context

from sqlstream.runtime.connectors.http.listener import Listener, Waiting
from sqlstream.runtime.connectors.http.webhook import WebhookReader
from sqlstream.spi.connector import SourceStatus
from sqlstream.testing.check import table_text

TOKEN = "0123456789abcdef"


class Sender:
    """Sends requests from threads of its own. State: their answers."""

    def __init__(self, listener: Listener) -> None:
        self._port = listener._socket.getsockname()[1]
        self.statuses: list[int] = []
        self._threads: list[threading.Thread] = []

    def send(self, body: bytes, key: str = "") -> None:
        self._threads.append(threading.Thread(target=self._send, args=(body, key)))
        self._threads[-1].start()

    def _send(self, body: bytes, key: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)
        headers = {"Authorization": f"Bearer {TOKEN}", **({"Idempotency-Key": key} if key else {})}
        connection.request("POST", "/", body, headers)
        self.statuses.append(connection.getresponse().status)
        connection.close()

    def wait(self) -> list[int]:
        for thread in self._threads:
            thread.join(TIMEOUT_S)
        return self.statuses


@pytest.fixture
def listening() -> Iterator[Callable[..., Listener]]:
    made: list[Listener] = []

    def listen(timeout_s: float = TIMEOUT_S) -> Listener:
        made.append(Listener("127.0.0.1", 0, "/", TOKEN, 1 << 20, timeout_s, 10))
        return made[-1]

    yield listen
    for listener in made:
        listener.close()


def taken(listener: Listener) -> Waiting:
    while (request := listener.take()) is None:
        pass
    return request


def test_a_request_that_was_given_up_is_not_read_and_takes_no_memory(
    listening: Callable[..., Listener],
) -> None:
    listener = listening(2)
    sender = Sender(listener)
    for _ in range(3):
        sender.send(b'{"n": 1}')
    assert sender.wait() == [503] * 3
    assert listener.take() is None


def test_a_request_that_waits_for_its_checkpoint_is_kept_without_its_body_and_key(
    listening: Callable[..., Listener],
) -> None:
    listener = listening()
    sender = Sender(listener)
    reader = _reader(listener)
    key = "k" * 5000
    sender.send(b'{"n": 1}', key)
    while isinstance(batch := reader.poll(), SourceStatus):
        pass
    assert batch.to_pylist() == [{"n": 1}]
    assert [w.body for w in reader._waiting.values()] == [b""]
    (position,) = reader.snapshot()
    assert [len(k) for k in position["keys"]] == [64]
    reader.on_checkpoint_completed([position])
    assert sender.wait() == [200]


def test_a_request_that_is_nested_too_deeply_is_refused(listening: Callable[..., Listener]) -> None:
    listener = listening()
    sender = Sender(listener)
    sender.send(b"[" * 100_000)
    reader = _reader(listener)
    request = taken(listener)
    assert reader._read(request) is None
    assert sender.wait() == [400]


def _reader(listener: Listener) -> WebhookReader:
    declared = table_text(
        "t", "n BIGINT", {"connector": "webhook", "port": "1", "token": TOKEN, "format": "json"}
    )
    reader = WebhookReader(
        source_spec(declared, "SELECT n FROM t"), table_context(), [{"taken": 0, "keys": []}]
    )
    reader._listener = listener
    return reader


def test_an_undecodable_message_is_numbered_within_its_request(listening: Callable[..., Listener]) -> None:
    listener = listening()
    sender = Sender(listener)
    reader = _reader(listener)
    answers = []
    for body in (b'{"n": 1}\n{"n": 2}', b'[{"n": 3}, {"n": "x"}]', b'{"n": 4}\n\n{"n": 5}\n{"n": }'):
        sender.send(body)
        request = taken(listener)
        request.answer = lambda status, message: answers.append((status, message.partition(":")[0]))  # type: ignore[method-assign]
        reader._read(request)
    assert answers == [
        (400, "could not decode message 2 of the request"),
        (400, "could not decode message 3 of the request"),
    ]
