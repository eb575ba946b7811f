"""Models behind the protocol of Triton: tensors in bytes and in JSON, what fails, and what is refused."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from http_harness import Asked, Reply, http_server, rows
from model_server_harness import TENSORS, first, mixed, triton, triton_model

import sqlstream

INPUTS = "a DOUBLE, v ARRAY<DOUBLE>, n BIGINT, s STRING"
OUTPUTS = "total FLOAT, scaled ARRAY<FLOAT>, loud STRING, odd BOOLEAN"
SELECT = "SELECT total, scaled, loud, odd FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(a, v, n, s))"
NEVER = "SET 'restart-strategy.type' = 'none'"
Given = tuple[float | None, list[float] | None, int | None, str | None]


def failure(*statements: str) -> Any:
    with pytest.raises(sqlstream.Error) as raised:
        rows(*statements)
    return raised.value


def view(given: list[Given]) -> str:
    def text(value: Any) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, list):
            return f"ARRAY[{', '.join(f'{x}E0' for x in value)}]"
        return (
            f"'{value}'"
            if isinstance(value, str)
            else f"{value}E0"
            if isinstance(value, float)
            else str(value)
        )

    types = ("DOUBLE", "ARRAY<DOUBLE>", "BIGINT", "STRING")
    shown = ", ".join(
        f"({', '.join(f'CAST({text(v)} AS {t})' for v, t in zip(row, types, strict=True))})" for row in given
    )
    return f"CREATE VIEW t AS SELECT * FROM (VALUES {shown}) AS t (a, v, n, s)"


def made_up(count: int) -> list[Given]:
    """Numbers that floats hold; runs of ARRAYs of several lengths."""
    fate = random.Random(count)
    found: list[Given] = []
    for _ in range(count):
        v = [fate.randint(-8, 8) / 2 for _ in range(fate.choice([1, 3, 3]))]
        row: Given = (fate.randint(-50, 50) / 4, v, fate.randint(-9, 9), fate.choice(["", "né", "abc"]))
        found.append((None, *row[1:]) if fate.random() < 0.1 else row)
    return found


@pytest.mark.parametrize(
    "options",
    [{}, {"binary_data": "false"}, {"compression": "gzip"}, {"batch_size": "7"}, {"priority": "3"}],
)
def test_rows_become_tensors_and_answers_rows(options: dict[str, str]) -> None:
    given = made_up(60)
    wanted = [(None,) * 4 if row[0] is None else mixed(*row) for row in given]  # type: ignore[arg-type]
    with http_server(triton) as server:
        assert rows(view(given), triton_model(server.url, INPUTS, OUTPUTS, **options), SELECT) == wanted
        asked = server.asked
    assert [a.path for a in asked if a.method == "GET"] == ["/v2/models/mix"]
    sent = [a for a in asked if a.method == "POST"]
    assert {a.path for a in sent} == {"/v2/models/mix/infer"}
    assert len(sent) < len(given)
    if options.get("binary_data") == "false":
        body = json.loads(sent[0].body)
        assert body["outputs"][0] == {"name": "total", "parameters": {"binary_data": False}}
        assert body["inputs"][0]["datatype"] == "FP32"
    if "priority" in options:
        head = sent[0].body[: int(sent[0].headers["inference-header-content-length"])]
        assert json.loads(head)["parameters"] == {"priority": 3}


def test_columns_are_found_by_their_place_where_names_differ() -> None:
    renamed = triton_model("{url}", "w DOUBLE, x ARRAY<DOUBLE>, y BIGINT, z STRING", OUTPUTS)
    row: Given = (1.0, [2.0], 3, "x")
    with http_server(triton) as server:
        assert rows(view([row]), renamed.replace("{url}", f"{server.url}/v2/models/"), SELECT) == [
            mixed(*row)
        ]  # type: ignore[arg-type]
        few = triton_model(
            server.url,
            INPUTS,
            "loud STRING",
            model_version="7",
            auth_token="t0k",
            custom_headers="X-A:b, X-C:d",
        )
        select = SELECT.replace("total, scaled, loud, odd", "loud")
        assert rows(view([row]), few, select) == [("X",)]
        last = server.asked[-1]
    assert (last.path, last.headers["authorization"], last.headers["x-a"], last.headers["x-c"]) == (
        "/v2/models/mix/versions/7/infer",
        "Bearer t0k",
        "b",
        "d",
    )


def test_a_model_without_rows_gets_one_at_a_time() -> None:
    """Its tensors have no dimension of rows."""
    tensors = {
        "inputs": [{"name": "v", "datatype": "FP32", "shape": [-1]}],
        "outputs": [{"name": "r", "datatype": "FP32", "shape": [-1]}],
    }

    def reply(asked: Asked) -> Reply:
        if asked.method == "GET":
            return Reply.json(tensors)
        (tensor,) = json.loads(asked.body)["inputs"]
        assert tensor["shape"] == [len(tensor["data"])]
        return Reply.json({"outputs": [{**tensor, "name": "r", "data": tensor["data"][::-1]}]})

    given: list[Given] = [(0.0, [1.0, 2.0], 0, ""), (0.0, [3.0], 0, "")]
    with http_server(reply) as server:
        options = {"flatten_batch_dim": "true", "binary_data": "false"}
        made = triton_model(server.url, "v ARRAY<DOUBLE>", "r ARRAY<FLOAT>", **options)
        found = rows(view(given), made, "SELECT r FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(v))")
    assert found == [([2.0, 1.0],), ([3.0],)]


ROW: Given = (1.0, [2.0], 3, "x")


def infers(answer: Any) -> Any:
    """A server that declares what it should, and answers with this."""
    reply = answer if isinstance(answer, Reply) else Reply.json(answer)
    return lambda asked: triton(asked) if asked.method == "GET" else reply


def output(**changed: Any) -> dict[str, Any]:
    return {"outputs": [{"name": "total", "datatype": "FP32", "shape": [1, 1], "data": [1.5], **changed}]}


@pytest.mark.parametrize(
    ("reply", "code", "said"),
    [
        (lambda asked: Reply(status=500), "SS5440", "status 500"),
        (lambda asked: Reply(b"unknown model", 404), "SS5442", "status 404"),
        (lambda asked: Reply(b"{}"), "SS5443", "what is no answer of this protocol"),
        (infers(Reply(b'{"error": "batch"}', 400)), "SS5442", "status 400"),
        (infers({"outputs": []}), "SS5443", 'no output "total"'),
        (infers(output(data=[1.0, 2.0])), "SS5443", "2 values of shape"),
        (infers(output(shape=[2, 1])), "SS5443", "1 values of shape"),
        (infers(output(data=["a"])), "SS5443", "that is no FP32"),
        (infers(output(datatype="BF16")), "SS5443", "that is no BF16"),
        (infers(output(datatype="BYTES", data=["a"])), "SS5443", "values of"),
        (infers(output(data=None, parameters={"binary_data_size": 9})), "SS5443", "too few bytes"),
        (infers(output(data=None, parameters={"binary_data_size": -1})), "SS5443", "too few bytes"),
    ],
)
def test_what_fails_fails_the_job_or_gives_the_default_value(reply: Any, code: str, said: str) -> None:
    select = SELECT.replace("total, scaled, loud, odd", "total")
    with http_server(reply) as server:
        error = failure(NEVER, view([ROW]), triton_model(server.url, INPUTS, "total FLOAT"), select)
        assert (error.code, said in error.message) == (code, True), error
        assert error.hint
        for default, value in (("-1.5", -1.5), ("null", None)):
            made = triton_model(server.url, INPUTS, "total FLOAT", default_value=default)
            assert rows(view([ROW]), made, select) == [(value,)]


def test_a_request_is_sent_again_as_often_as_is_said() -> None:
    busy = [triton, Reply(status=503), Reply(status=502)]
    options = {"max_retries": "2", "retry_initial_backoff": "1 ms", "retry_max_backoff": "2 ms"}
    with http_server(first(busy, triton)) as server:
        assert rows(view([ROW]), triton_model(server.url, INPUTS, OUTPUTS, **options), SELECT) == [
            mixed(*ROW)
        ]  # type: ignore[arg-type]
        assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("inputs", "outputs", "said"),
    [
        ("a DOUBLE, v ARRAY<DOUBLE>, n BIGINT", "total FLOAT", "inputs a FP32[-1, 1]"),
        (INPUTS, "one FLOAT", "outputs total FP32[-1, 1]"),
        ("a STRING, v ARRAY<DOUBLE>, n BIGINT, s STRING", "total FLOAT", "cannot take string"),
        ("a DOUBLE, v ARRAY<DOUBLE>, n BIGINT, s BIGINT", "total FLOAT", "cannot take int64"),
        ("a ARRAY<DOUBLE>, v ARRAY<DOUBLE>, n BIGINT, s STRING", "total FLOAT", "cannot take 2 values a row"),
        (INPUTS, "total STRING", "values of"),
    ],
)
def test_a_model_with_other_tensors_is_told_apart(inputs: str, outputs: str, said: str) -> None:
    columns = {"a DOUBLE": "a", "a STRING": "s", "a ARRAY": "ARRAY[1E0, 2E0]"}
    first_column = next(column for begin, column in columns.items() if inputs.startswith(begin))
    last = "n" if inputs.endswith("s BIGINT") else "s"
    names = ["w", "v", "n", "z"][: inputs.count(",") + 1]
    table = f"CREATE VIEW u AS SELECT {first_column} AS w, v, n, {last} AS z FROM t"
    select = f"SELECT * FROM ML_PREDICT(TABLE u, MODEL m, DESCRIPTOR({', '.join(names)}))"
    with http_server(triton) as server:
        error = failure(NEVER, view([ROW]), table, triton_model(server.url, inputs, outputs), select)
    assert (error.code in ("SS5442", "SS5443"), said in error.message) == (True, True), error
    assert len(TENSORS["inputs"]) == 4


@pytest.mark.parametrize(
    ("outputs", "options", "code", "said"),
    [
        ("x FLOAT", {"endpoint": "a:8000"}, "SS4002", "no address"),
        ("x DECIMAL(5, 2)", {}, "SS3464", "cannot be DECIMAL"),
        ("x MAP<INT, INT>", {}, "SS3464", "cannot be MAP"),
        ("x FLOAT", {"sequence_id": "a"}, "SS4003", "not supported"),
        ("x FLOAT", {"circuit_breaker_enabled": "true"}, "SS4003", "not supported"),
        ("x FLOAT", {"priority": "256"}, "SS4002", "at most 255"),
        ("x FLOAT", {"compression": "zstd"}, "SS4002", "cannot be"),
        ("x FLOAT", {"custom_headers": "nothing"}, "SS4002", "names and values"),
        ("x FLOAT", {"custom_headers": "Content-Length:5"}, "SS4002", "cannot set"),
        ("x FLOAT", {"custom_headers": "X A:b"}, "SS4002", "names and values"),
        ("x FLOAT", {"flatten_batch_dim": "true", "batch_size": "3"}, "SS4003", "no use"),
        ("x FLOAT", {"retry_max_backoff": "1 s"}, "SS4003", "no use"),
        ("x FLOAT", {"max_retries": "1", "retry_max_backoff": "1 ms"}, "SS4002", "is shorter"),
        ("x FLOAT, y FLOAT", {"default_value": "1"}, "SS4002", "the model has 2"),
        ("x FLOAT", {"default_value": "one"}, "SS4002", "is no FLOAT"),
        ("x TINYINT", {"default_value": "128"}, "SS4002", "is no TINYINT"),
        ("x FLOAT", {"default_value": "9" * 400}, "SS4002", "is no FLOAT"),
        ("x ARRAY<FLOAT>", {"default_value": "1"}, "SS4002", "is no ARRAY"),
    ],
)
def test_what_has_no_meaning_is_refused(outputs: str, options: dict[str, str], code: str, said: str) -> None:
    error = failure(triton_model("http://a", "x FLOAT", outputs, **options))
    assert (error.code, said in error.message) == (code, True), error
    assert error.hint


def test_secrets_are_shown_nowhere() -> None:
    made = triton_model(
        "http://a", "x FLOAT", "y FLOAT", auth_token="hunter2", custom_headers="X-Key:hunter3"
    )
    (text,) = rows(made, "SHOW CREATE MODEL m")[0]
    assert "hunter" not in text
    assert "'custom-headers' = '******'" in text
