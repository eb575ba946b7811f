"""What the OpenAPI document says of a route's bodies."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from sqlstream.client.gateway.bodies import ErrorResponseBody

_SAYS = {
    400: "The request is not understood.",
    404: "There is no such path.",
    405: "The path has no such method.",
    413: "The body is too large.",
    500: "The statement is wrong, it failed, or there is no such session or operation.",
}

Extra = dict[str, Any]


def json_body(kind: type[BaseModel], is_required: bool = True) -> Extra:
    """The body that a route reads."""
    content = {"application/json": {"schema": kind.model_json_schema()}}
    return {"requestBody": {"required": is_required, "content": content}}


def json_response(kind: type[BaseModel]) -> dict[int | str, Extra]:
    """The body that a route answers with, and those of its errors."""
    found: dict[int | str, Extra] = {200: {"model": kind, "description": "The request was successful."}}
    return found | {
        status: {"model": ErrorResponseBody, "description": said} for status, said in _SAYS.items()
    }
