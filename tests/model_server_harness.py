"""A server of models on loopback: it speaks the protocol of OpenAI, and fails as a test says."""

from __future__ import annotations

import json
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


def model(name: str, output: str, options: dict[str, str], inputs: str = "`input` STRING") -> str:
    given = {"provider": "openai", **options}
    shown = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    return f"CREATE MODEL {name} INPUT ({inputs}) OUTPUT (said {output}) WITH ({shown})"
