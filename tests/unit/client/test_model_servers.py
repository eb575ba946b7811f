"""Models that servers compute, in sessions: declared, asked, failing, limited, and their keys unseen."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
from http_harness import TIMEOUT_S, Asked, Reply, http_server, rows
from model_server_harness import KEY, answer_to, chat, embedding_of, embeddings, first, model, openai

import sqlstream

INPUT = "CREATE VIEW t AS SELECT * FROM (VALUES (1, 'abc'), (2, CAST(NULL AS STRING)), (3, 'de')) AS t (n, x)"
CALL = "ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(x))"
SELECT = f"SELECT n, said FROM {CALL}"
CHATTED = [(1, "CBA"), (2, None), (3, "ED")]
RETRIED = {"retry_num": "1"}


def failure(*statements: str) -> Any:
    with pytest.raises(sqlstream.Error) as raised:
        rows(*statements)
    return raised.value


def test_a_chat_is_a_request_for_each_text_with_the_options_of_the_model() -> None:
    options = {
        "system_prompt": "Sum up.",
        "temperature": "0.5",
        "top_p": "0.9",
        "stop": "x,y",
        "max_tokens": "9",
        "presence_penalty": "-1",
        "seed": "7",
        "response_format": "json_object",
    }
    with http_server(openai) as server:
        assert rows(INPUT, chat(server.url, **options), SELECT) == CHATTED
        sent = sorted(
            (json.loads(asked.body) for asked in server.asked), key=lambda b: b["messages"][1]["content"]
        )
        assert [asked.headers["authorization"] for asked in server.asked] == [f"Bearer {KEY}"] * 2
    assert sent == [
        {
            "model": "m-1",
            "messages": [
                {"role": "system", "content": "Sum up."},
                {"role": "user", "content": text},
            ],
            "temperature": 0.5,
            "top_p": 0.9,
            "stop": ["x", "y"],
            "max_tokens": 9,
            "presence_penalty": -1.0,
            "seed": 7,
            "response_format": {"type": "json_object"},
        }
        for text in ("abc", "de")
    ]


def test_embeddings_of_many_texts_are_one_request() -> None:
    with http_server(openai) as server:
        found = rows(INPUT, embeddings(server.url, dimension="3"), SELECT)
        (asked,) = server.asked
    assert found == [(1, embedding_of("abc")), (2, None), (3, embedding_of("de"))]
    assert json.loads(asked.body) == {"model": "m-1", "input": ["abc", "de"], "dimensions": 3}


def test_a_server_that_is_busy_or_fails_is_asked_again_and_says_when() -> None:
    busy = [Reply(status=429, headers={"retry-after": "0"}), Reply(status=500), Reply(status=503)]
    with http_server(first(busy)) as server:
        assert rows(INPUT, embeddings(server.url), SELECT)[0] == (1, embedding_of("abc"))
        assert len(server.asked) == 4


BROKEN = Reply(b'{"choices": [')
ENDLESS = Reply.json({"choices": [{"message": {"content": "a"}}], "usage": {"total_tokens": 1 << 63}})
FEW = Reply.json({"data": [{"index": 0, "embedding": [1.0]}]})
TWICE = Reply.json({"data": [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]})
SHORT = Reply.json({"data": [{"index": i, "embedding": [1.0]} for i in range(2)]})
NO_NUMBER = Reply.json({"data": [{"index": i, "embedding": ["a"]} for i in range(2)]})


@pytest.mark.parametrize(
    ("make", "reply", "code", "said"),
    [
        (embeddings, Reply(status=500), "SS5440", "answers POST with status 500"),
        (embeddings, None, "SS5440", "did not answer in time"),
        (embeddings, Reply(b"no such key", 401), "SS5441", "answers POST with status 401"),
        (embeddings, Reply(b"no such model", 404), "SS5442", "answers POST with status 404"),
        (chat, BROKEN, "SS5443", "what is no answer of this protocol"),
        (chat, Reply.json({"choices": []}), "SS5443", "no choice"),
        (chat, ENDLESS, "SS5443", "what is no answer of this protocol"),
        (chat, Reply.json({"choices": [{"message": {"content": 1}}]}), "SS5443", "Expected `str | null`"),
        (embeddings, FEW, "SS5443", "1 embeddings for 2 texts"),
        (embeddings, TWICE, "SS5443", "or others than asked"),
        (embeddings, SHORT, "SS5443", '"dimension", 3'),
        (embeddings, NO_NUMBER, "SS5443", "Expected `float`"),
        (embeddings, Reply(b"[" * 100_000), "SS5443", "what is no answer"),
    ],
)
def test_what_fails_fails_the_job_or_gives_null(make: Any, reply: Reply | None, code: str, said: str) -> None:
    is_over = threading.Event()

    def answer(asked: Asked) -> Reply:
        if reply is None:
            is_over.wait(TIMEOUT_S)
        return reply or Reply()

    options = {**RETRIED, **({"dimension": "3"} if make is embeddings else {})}
    if reply is None:
        options["request_timeout"] = "200 ms"
    never = "SET 'restart-strategy.type' = 'none'"
    with http_server(answer) as server:
        error = failure(never, INPUT, make(server.url, **options), SELECT)
        assert (error.code, said in error.message) == (code, True), error
        assert error.hint
        assert KEY not in str(error)
        fallback = {**options, "retry_fallback_strategy": "IGNORE"}
        none = [(1, None), (2, None), (3, None)]
        assert rows(INPUT, make(server.url, **fallback), SELECT) == none
        server.asked.clear()
        ignoring = {key: value for key, value in options.items() if key != "retry_num"}
        assert rows(INPUT, make(server.url, error_handling_strategy="IGNORE", **ignoring), SELECT) == none
        # Who gives up soon may do so before a slow machine has noted the request.
        assert reply is None or len(server.asked) == (2 if make is chat else 1)
    is_over.set()


def test_an_answer_that_is_too_large_is_refused() -> None:
    with http_server(lambda asked: Reply(b" " * 2000)) as server:
        error = failure(INPUT, embeddings(server.url, response__max_size="1 kb"), SELECT)
    assert (error.code, "response.max-size" in error.hint) == ("SS5443", True)


def test_a_request_with_its_retries_takes_no_longer_than_the_call_says() -> None:
    call = f"SELECT n FROM {CALL[:-1]}, MAP['timeout', '20 s', 'max-concurrent-operations', '1'])"
    never = "SET 'restart-strategy.type' = 'none'"
    with http_server(lambda asked: Reply(status=429, headers={"retry-after": "30"})) as server:
        # What reads no output of the model asks nobody.
        assert rows(INPUT, embeddings(server.url), call) == [(1,), (2,), (3,)]
        error = failure(never, INPUT, embeddings(server.url), call.replace("SELECT n", "SELECT *"))
        assert (error.code, len(server.asked)) == ("SS5440", 1)


def most_at_once(expected: int, call: str, *statements: str) -> int:
    """No request is answered before so many have come, and a while for one more."""
    lock, under_way, most, are_there = threading.Lock(), 0, 0, threading.Event()

    def counting(asked: Asked) -> Reply:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
            if most >= expected:
                are_there.set()
        are_there.wait(TIMEOUT_S)
        time.sleep(0.05)
        with lock:
            under_way -= 1
        return openai(asked)

    values = ", ".join(f"('{n}')" for n in range(12))
    table = f"CREATE VIEW u AS SELECT * FROM (VALUES {values}) AS u (x)"
    with http_server(counting) as server:
        found = rows(*statements, table, chat(server.url), f"SELECT x, said FROM {call}")
    assert found == [(str(n), answer_to(str(n))) for n in range(12)]
    return most


@pytest.mark.parametrize(
    ("config", "statements", "most"),
    [
        ("", (), 10),
        (", MAP['async', 'false']", (), 1),
        (", MAP['async', 'true', 'max-concurrent-operations', '3', 'output-mode', 'ordered']", (), 3),
        ("", ("SET 'table.exec.async-ml-predict.max-concurrent-operations' = '2'",), 2),
    ],
)
def test_so_many_requests_are_under_way_as_is_said(
    config: str, statements: tuple[str, ...], most: int
) -> None:
    assert most_at_once(most, f"ML_PREDICT(TABLE u, MODEL m, DESCRIPTOR(x){config})", *statements) == most


def test_requests_keep_the_pace_that_is_allowed() -> None:
    """However slow the machine is, the last of three does not begin before its time."""
    times: list[float] = []

    def timed(asked: Asked) -> Reply:
        times.append(time.monotonic())
        return openai(asked)

    table = "CREATE VIEW t AS SELECT * FROM (VALUES (1, 'abc'), (2, 'abcd'), (3, 'de')) AS t (n, x)"
    with http_server(timed) as server:
        for options, least_s in (
            ({"limit__requests_per_second": "4"}, 0.5),
            # An answer may have 9 tokens and has none: the others are 4 at least, of the 10 that a second has.
            ({"limit__tokens_per_minute": "600", "max_tokens": "9"}, 0.4),
        ):
            times.clear()
            began = time.monotonic()
            assert len(rows(table, chat(server.url, **options), SELECT)) == 3
            assert times[-1] - began >= least_s


def test_a_budget_of_tokens_ends_the_job_or_gives_null() -> None:
    one = f"SELECT n, said FROM {CALL[:-1]}, MAP['async', 'false'])"
    with http_server(openai) as server:
        error = failure(INPUT, chat(server.url, budget__tokens="2"), one)
        assert (error.code, "budget.tokens" in error.hint) == ("SS5444", True)
        made = chat(server.url, budget__tokens="2", budget__action="IGNORE")
        assert rows(INPUT, made, one) == [(1, "CBA"), (2, None), (3, None)]


OPTIONS = "'provider' = 'openai', 'endpoint' = 'http://a/v1/{task}', 'api-key' = 'k', 'model' = 'm'"


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"endpoint": "http://a/v1/completions"}, "SS4002", "whether the model chats or embeds"),
        ({"endpoint": "a/v1/chat/completions"}, "SS4002", "no address of a server"),
        ({"endpoint": "https://u:p@a/v1/chat/completions"}, "SS4002", "no address of a server"),
        ({"endpoint": "ftp://a/v1/chat/completions"}, "SS4002", "no address of a server"),
        ({"api-key": "k\né"}, "SS4002", "no header"),
        ({"temperature": "warm"}, "SS4002", "takes a number"),
        ({"temperature": "nan"}, "SS4002", "at most 10"),
        ({"top-p": "1.5"}, "SS4002", "at most 1"),
        ({"top-p": "-0.5"}, "SS4002", "at least 0"),
        ({"retry-num": "-1"}, "SS4002", "at least 0"),
        ({"error-handling-strategy": "PANIC"}, "SS4002", "cannot be"),
        ({"error-handling-strategy": "IGNORE", "retry-num": "3"}, "SS4003", "no use without retries"),
        ({"budget.action": "IGNORE"}, "SS4003", 'without "budget.tokens"'),
        ({"dimension": "3"}, "SS4003", "no use for a chat"),
        ({"endpoint": "http://a/embeddings", "seed": "3"}, "SS4003", "no use for embeddings"),
        ({"max-context-size": "3"}, "SS4003", "not supported"),
        ({"n": "2"}, "SS4003", "not supported"),
        ({"max-token": "2"}, "SS4003", "unknown option"),
    ],
)
def test_options_that_have_no_meaning_are_refused(options: dict[str, str], code: str, said: str) -> None:
    given = {"endpoint": "http://a/v1/chat/completions", "api-key": KEY, "model": "m", **options}
    error = failure(model("m", "STRING", given))
    assert (error.code, said in error.message) == (code, True), error
    assert error.hint
    assert KEY not in str(error)


@pytest.mark.parametrize(
    ("make", "output", "inputs", "said"),
    [
        (chat, "INT", "x STRING", "OUTPUT of provider"),
        (chat, "ARRAY<FLOAT>", "x STRING", "OUTPUT of provider"),
        (embeddings, "ARRAY<STRING>", "x STRING", "OUTPUT of provider"),
        (chat, "STRING", "x INT", "INPUT of provider"),
        (chat, "STRING", "x STRING, y STRING", "INPUT of provider"),
        (chat, "STRING, more STRING", "x STRING", "OUTPUT of provider"),
    ],
)
def test_columns_that_such_a_model_does_not_have_are_refused(
    make: Any, output: str, inputs: str, said: str
) -> None:
    task = "chat/completions" if make is chat else "embeddings"
    given = {"endpoint": f"http://a/{task}", "api-key": KEY, "model": "m"}
    error = failure(model("m", output, given, inputs))
    assert (error.code, said in error.message) == ("SS3464", True), error


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("'output-mode', 'ALLOW_UNORDERED'", "not supported"),
        ("'max-concurrent-operations', '0'", "is 1 to 1000"),
        ("'max-concurrent-operations', 'two'", "is 1 to 1000"),
        ("'async', 'false', 'max-concurrent-operations', '2'", "no use beside"),
        ("'async', 'perhaps'", "is true or false"),
        ("'timeout', 'soon'", "is a duration"),
        ("'timeout', 3", "a MAP of texts"),
        ("'timout', '1 s'", 'config has no "timout"'),
    ],
)
def test_what_a_call_says_of_waiting_is_checked(config: str, said: str) -> None:
    error = failure(INPUT, chat("http://a"), f"SELECT * FROM {CALL[:-1]}, MAP[{config}])")
    assert (error.code, said in error.message) == ("SS3465", True), error
    assert error.hint


def test_the_key_is_shown_nowhere() -> None:
    shown = (
        "SHOW CREATE MODEL m",
        "DESCRIBE MODEL m",
        f"EXPLAIN {SELECT}",
        f"EXPLAIN JSON_EXECUTION_PLAN {SELECT}",
        f"EXPLAIN STATE {SELECT}",
    )
    with http_server(openai) as server:
        made = chat(server.url)
        for statement in shown:
            text = str(rows(INPUT, made, statement))
            assert KEY not in text
        (text,) = rows(INPUT, made, "SHOW CREATE MODEL m")[0]
        assert "'api-key' = '******'" in text
        assert f"server={server.url}/v1/chat/completions" in str(rows(INPUT, made, f"EXPLAIN {SELECT}"))
        assert "the rows that wait for the server" in str(rows(INPUT, made, f"EXPLAIN STATE {SELECT}"))


def test_other_models_need_no_server_and_say_so() -> None:
    """A recursive query asks none, either."""
    step = "SELECT n + 1, said FROM ML_PREDICT(TABLE (SELECT * FROM r WHERE n < 3), MODEL m, DESCRIPTOR(x))"
    with http_server(openai) as server:
        error = failure(
            INPUT,
            chat(server.url),
            f"WITH RECURSIVE r (n, x) AS (SELECT n, x FROM t UNION ALL {step}) SELECT * FROM r",
        )
    assert error.code == "SS3404", error
