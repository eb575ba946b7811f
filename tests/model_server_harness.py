"""Servers of models on loopback: they speak the protocols of OpenAI and Triton, and fail as a test says."""

from __future__ import annotations

import gzip
import json
import math
import struct
from collections.abc import Callable, Iterable
from typing import Any

from http_harness import Asked, Reply

Answering = Callable[[Asked], Reply]


def embedding_of(text: str) -> list[float]:
    """Three numbers, exact as floats."""
    return [float(len(text)), float(sum(map(ord, text)) % 97), 0.5]


def answer_to(text: str) -> str:
    return text.upper()[::-1]


def openai(asked: Asked) -> Reply:
    """Both tasks; a character costs a token."""
    body = json.loads(asked.body)
    if asked.path.endswith("/embeddings"):
        found = [{"index": i, "embedding": embedding_of(text)} for i, text in enumerate(body["input"])]
        # The order is that of `index` alone.
        return Reply.json({"data": found[::-1], "usage": {"total_tokens": sum(map(len, body["input"]))}})
    text = body["messages"][-1]["content"]
    return Reply.json(
        {"choices": [{"message": {"content": answer_to(text)}}], "usage": {"total_tokens": len(text)}}
    )


def first(replies: Iterable[Any], then: Answering = openai) -> Answering:
    """These answers, one for each request, and then others. An answer may be a function of the request."""
    left = iter(replies)

    def reply(asked: Asked) -> Reply:
        found = next(left, None)
        if found is None:
            return then(asked)
        return found(asked) if callable(found) else found

    return reply


def chat(url: str, name: str = "m", **options: str) -> str:
    return model(name, "STRING", {"endpoint": f"{url}/v1/chat/completions", **_WITH_KEY, **_named(options)})


def embeddings(url: str, name: str = "m", **options: str) -> str:
    return model(name, "ARRAY<FLOAT>", {"endpoint": f"{url}/v1/embeddings", **_WITH_KEY, **_named(options)})


KEY = "sk-a-very-secret-key"
_WITH_KEY = {"api-key": KEY, "model": "m-1"}


def _named(options: dict[str, str]) -> dict[str, str]:
    return {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}


def triton_model(url: str, inputs: str, outputs: str, **options: str) -> str:
    given = {"provider": "triton", "endpoint": url, "model-name": "mix", **_named(options)}
    shown = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    return f"CREATE MODEL m INPUT ({inputs}) OUTPUT ({outputs}) WITH ({shown})"


TENSORS = {
    "inputs": [
        {"name": "a", "datatype": "FP32", "shape": [-1, 1]},
        {"name": "v", "datatype": "FP64", "shape": [-1, -1]},
        {"name": "n", "datatype": "INT32", "shape": [-1]},
        {"name": "s", "datatype": "BYTES", "shape": [-1, 1]},
    ],
    "outputs": [
        {"name": "total", "datatype": "FP32", "shape": [-1, 1]},
        {"name": "scaled", "datatype": "FP64", "shape": [-1, -1]},
        {"name": "loud", "datatype": "BYTES", "shape": [-1, 1]},
        {"name": "odd", "datatype": "BOOL", "shape": [-1]},
    ],
}


def mixed(a: float, v: list[float], n: int, s: str) -> tuple[float, list[float], str, bool]:
    """What the model `mix` of `triton` says of one row."""
    return a + sum(v) + n, [n * x for x in v], s.upper(), n % 2 == 1


def triton(asked: Asked) -> Reply:
    """One row at a time."""
    if asked.method == "GET":
        return Reply.json({"name": "mix", "versions": ["1"], "platform": "test", **TENSORS})
    raw = gzip.decompress(asked.body) if asked.headers.get("content-encoding") == "gzip" else asked.body
    head_length = int(asked.headers.get("inference-header-content-length") or len(raw))
    body, at = json.loads(raw[:head_length]), head_length
    columns: dict[str, list[Any]] = {}
    for tensor in body["inputs"]:
        size = tensor.get("parameters", {}).get("binary_data_size")
        rows = tensor["shape"][0]
        values = tensor["data"] if size is None else unpacked(raw[at : at + size], tensor["datatype"])
        at += size or 0
        assert len(values) == math.prod(tensor["shape"])
        width = len(values) // rows
        columns[tensor["name"]] = [values[i * width : (i + 1) * width] for i in range(rows)]
    assert at == len(raw)
    rows_said = [
        mixed(a[0], v, n[0], s[0]) for a, v, n, s in zip(*(columns[name] for name in "avns"), strict=True)
    ]
    outputs, binary = [], b""
    for asked_for in body["outputs"]:
        place = [o["name"] for o in TENSORS["outputs"]].index(asked_for["name"])
        declared = TENSORS["outputs"][place]
        values = [row[place] for row in rows_said]
        width = len(values[0]) if isinstance(values[0], list) else 1
        flat = [x for value in values for x in (value if isinstance(value, list) else [value])]
        shape = [len(values), *([width] if len(declared["shape"]) > 1 else [])]
        made: dict[str, Any] = {"name": declared["name"], "datatype": declared["datatype"], "shape": shape}
        if asked_for["parameters"]["binary_data"]:
            part = packed(flat, declared["datatype"])
            made["parameters"] = {"binary_data_size": len(part)}
            binary += part
        else:
            made["data"] = flat
        outputs.append(made)
    head = json.dumps({"model_name": "mix", "outputs": outputs}).encode()
    if not binary:
        return Reply(head)
    return Reply(head + binary, headers={"Inference-Header-Content-Length": str(len(head))})


_CODES = {"FP32": "f", "FP64": "d", "INT32": "i", "BOOL": "?"}


def packed(values: list[Any], datatype: str) -> bytes:
    if datatype == "BYTES":
        texts = [value.encode() for value in values]
        return b"".join(struct.pack("<I", len(text)) + text for text in texts)
    return struct.pack(f"<{len(values)}{_CODES[datatype]}", *values)


def unpacked(data: bytes, datatype: str) -> list[Any]:
    if datatype != "BYTES":
        return [value for (value,) in struct.iter_unpack(f"<{_CODES[datatype]}", data)]
    found, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        found.append(data[at + 4 : at + 4 + length].decode())
        at += 4 + length
    return found


def model(name: str, output: str, options: dict[str, str], inputs: str = "`input` STRING") -> str:
    given = {"provider": "openai", **options}
    shown = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    return f"CREATE MODEL {name} INPUT ({inputs}) OUTPUT (said {output}) WITH ({shown})"
