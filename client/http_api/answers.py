"""Answers in JSON and in plain text, in Flink's content types."""

from __future__ import annotations

import msgspec
from fastapi import Response


def json_answer(body: object, status: int = 200) -> Response:
    """A struct or plain value as JSON, in Flink's content type."""
    return Response(msgspec.json.encode(body), status, media_type="application/json; charset=UTF-8")


def text_answer(text: str) -> Response:
    return Response(text, media_type="text/plain; charset=UTF-8")


def error_answer(status: int, message: str) -> Response:
    return json_answer({"errors": [message]}, status)
