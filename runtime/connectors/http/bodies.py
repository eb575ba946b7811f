"""Bodies of requests and answers, and the messages that they hold."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import UserError
from sqlstream.runtime.formats import format_of

_CONTENT_TYPES = {"json": "application/json", "csv": "text/csv", "raw": "text/plain"}


def answer_of(place: str) -> str:
    """A server's answer, as errors call it."""
    return f'the answer of "{place}"'


def content_type(identifier: str) -> str:
    """Of bodies in this format."""
    return _CONTENT_TYPES.get(identifier, "application/octet-stream")


def messages_of(body: bytes, identifier: str, path: str | None, source: str) -> pa.Array:
    """The rows of an answer or a request, which errors call `source`, each as a message: the elements of a list of JSON, or else
    lines; a format that is no text has one. UserError SS5344 for one that has no list at its `path`."""
    if path is not None:
        body = bytes(found) if (found := value_at(body, path, source)) is not None else b"null"
        if body == b"null":
            return pa.array([], pa.binary())
    if identifier.endswith("json"):
        return _documents(body, source)
    if not format_of(identifier).descriptor.is_text:
        return pa.array([body] if body else [], pa.binary())
    return _lines(body)


def _documents(body: bytes, source: str) -> pa.Array:
    text = body.strip()
    if not text.startswith((b"[", b"{")):
        return _lines(body)
    try:
        if text.startswith(b"["):
            rows = msgspec.json.decode(text, type=list[msgspec.Raw])
            # A call for each row, but none of Python's own: the library has no array of them.
            return pa.array(list(map(bytes, rows)), pa.binary())
        msgspec.json.decode(text, type=msgspec.Raw)
    except RecursionError:
        raise _too_deep(source) from None
    except msgspec.DecodeError as error:
        if text.startswith(b"["):
            raise UserError("SS5344", f"{source} is no JSON: {error}") from None
        return _lines(body)
    return pa.array([text], pa.binary())


def _lines(body: bytes) -> pa.Array:
    lines = pc.split_pattern(pa.array([body], pa.binary()), b"\n").flatten()
    lines = pc.replace_substring_regex(lines, "\r$", b"")
    return lines.filter(pc.greater(pc.binary_length(lines), 0))


def value_at(body: bytes, path: str, source: str) -> msgspec.Raw | None:
    """The text of a part of JSON; None when it is not there. UserError SS5344 for what is no JSON."""
    found = msgspec.Raw(body)
    for name in path.split("."):
        try:
            fields = msgspec.json.decode(found, type=dict[str, msgspec.Raw] | None)
        except RecursionError:
            raise _too_deep(source) from None
        except msgspec.DecodeError as error:
            raise UserError("SS5344", f'{source} has no field "{name}" of "{path}": {error}') from None
        if fields is None or name not in fields:
            return None
        found = fields[name]
    return found


def missing_field(body: bytes, path: str, place: str) -> str:
    """What an answer has in place of a part of JSON that is not there, as a sentence; empty when it is there, or null."""
    above, _, name = path.rpartition(".")
    found = value_at(body, above, answer_of(place)) if above else msgspec.Raw(body)
    if found is None or bytes(found) == b"null":
        return missing_field(body, above, place) if above else ""
    fields = msgspec.json.decode(found, type=dict[str, msgspec.Raw])
    if name in fields:
        return ""
    return f'"{place}" answers without the field "{path}"; there are {", ".join(list(fields)[:_NAMES_MAX]) or "none"}'


_NAMES_MAX = 20


def json_value(found: msgspec.Raw, source: str) -> Any:
    """Of a part of JSON. UserError SS5344 for one that is nested too deeply."""
    try:
        return msgspec.json.decode(found)
    except RecursionError:
        raise _too_deep(source) from None


def _too_deep(source: str) -> UserError:
    return UserError("SS5344", f"{source} is JSON that is nested too deeply")


def joined(messages: pa.Array, identifier: str, is_list: bool) -> bytes:
    """A body with these messages: a list for JSON, otherwise lines. One alone is its own body unless `is_list`."""
    parts = messages.to_pylist()
    if not is_list:
        return b"".join(parts)
    if identifier.endswith("json"):
        return b"[" + b",".join(parts) + b"]"
    return b"\n".join(parts) + b"\n"
