"""Reads a table page by page: each answer is one batch, and the position is the request that comes next."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.http.background import AWAITING_MS, Background
from sqlstream.runtime.connectors.http.bodies import (
    answer_of,
    json_value,
    messages_of,
    missing_field,
    value_at,
)
from sqlstream.runtime.connectors.http.options import ReadOptions, headers_of
from sqlstream.runtime.connectors.message_rows import MessageRows
from sqlstream.runtime.formats.file_rows import empty_columns
from sqlstream.runtime.host.http_addresses import (
    header_value,
    is_same_server,
    led_to,
    shown_url,
    with_parameters,
)
from sqlstream.runtime.host.http_client import Answer, HttpClient, Request, Retries
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext, SourceStatus
from sqlstream.spi.table_options import parse_options

_NOT_MODIFIED = 304


@dataclass(frozen=True)
class Page:
    """`following` is the position behind it. `is_last`: there is no other at present."""

    batch: pa.RecordBatch
    following: dict[str, Any]
    is_last: bool


class HttpReader:
    """One request at a time, in a thread of its own. A page that a server gives twice has its rows twice, so that rows come once
    when the server gives for a position what is behind it.

    State: the position: `link`, an address that a page has named; `cursor`, a value for the table's own address; `tag`, by which
    the server knows whether an answer without either is another one; `emitted`, how many messages of the page at the position,
    which is the last one, have been emitted."""

    def __init__(self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]]) -> None:
        self._context = context
        options = parse_options(ReadOptions, spec.options)
        self._options = options
        self._splits = [dict(split) for split in splits]
        self._headers = headers_of(spec.options, "http.source.header.")
        self._columns = len(spec.columns)
        self._cursor_column = options.cursor_column
        added = () if options.cursor_column in (None, *spec.columns) else (str(options.cursor_column),)
        self._rows = MessageRows(spec, context, "SS5346", shown_url(options.url), added)
        self._format = spec.options["format"]
        self._client = HttpClient(
            context.files, options.certificates, options.read_timeout_s, options.bytes_max
        )
        self._is_cancelled = threading.Event()
        self._retries = Retries(options.read_retries, self._is_cancelled)
        self._background: Background[Answer] = Background("http-source")
        self._next_ms = 0
        self._has_said = False
        context.on_cancel(self._abort)

    def _abort(self) -> None:
        self._is_cancelled.set()
        self._client.abort()

    def poll(self) -> pa.RecordBatch | SourceStatus:
        if not self._splits:
            return SourceStatus.END
        if not self._background.is_under_way and self._context.now_ms() < self._next_ms:
            return SourceStatus.NOTHING_YET
        position = self._splits[0]
        request = self._request(position)
        answer = self._background.result(lambda: self._retries.answered(self._client, request, _is_answer))
        if answer is None:
            return SourceStatus.NOTHING_YET
        page = self._page(position, answer)
        self._splits[0] = page.following
        if page.is_last:
            if self._options.interval_ms is None:
                self._splits = []
            else:
                self._next_ms = self._context.now_ms() + self._options.interval_ms
        if not page.batch.num_rows:
            return SourceStatus.END if not self._splits else SourceStatus.NOTHING_YET
        return page.batch

    def _page(self, position: dict[str, Any], answer: Answer) -> Page:
        self._context.count("numBytesIn", len(answer.body))
        messages = pa.array([], pa.binary())
        if answer.status != _NOT_MODIFIED:
            place = shown_url(answer.url)
            messages = messages_of(answer.body, self._format, self._options.rows_path, answer_of(place))
            if not len(messages) and self._options.rows_path is not None and not self._has_said:
                # Some servers leave an empty list out, so that this may be none.
                said = missing_field(answer.body, self._options.rows_path, place)
                self._has_said = bool(said)
                self._context.print_lines([said] if said else [], True)
        decoded = self._rows.rows(messages.slice(position.get("emitted", 0)))
        following, is_last = self._following(position, answer, len(messages), decoded)
        batch = decoded
        if decoded.num_columns > self._columns:
            batch = decoded.select(range(self._columns)) if self._columns else empty_columns(decoded.num_rows)
        return Page(batch, following, is_last)

    def _address(self, position: dict[str, Any]) -> str:
        if position.get("link") is not None:
            return str(position["link"])
        cursor = position.get("cursor")
        return (
            self._options.url
            if cursor is None
            else with_parameters(self._options.url, {self._parameter: cursor})
        )

    def _request(self, position: dict[str, Any]) -> Request:
        url, protocol = self._address(position), {}
        headers = self._headers if is_same_server(url, self._options.url) else {}
        if position.get("tag") is not None:
            protocol["if-none-match"] = header_value(position["tag"].encode("latin-1"), url)
        return Request("GET", url, headers, protocol=protocol)

    @property
    def _parameter(self) -> str:
        return self._options.cursor_parameter or self._options.cursor_column or "cursor"

    def _following(
        self, position: dict[str, Any], answer: Answer, messages: int, rows: pa.RecordBatch
    ) -> tuple[dict[str, Any], bool]:
        """The position behind an answer with so many messages, and whether there is no page behind it at present."""
        if answer.status == _NOT_MODIFIED:
            return position, True
        if self._options.cursor_path is not None:
            return self._behind_path(position, answer, messages)
        link, cursor = answer.next_link, self._last_value(rows) or position.get("cursor")
        if link is not None:
            self._check_moves(link != self._address(position))
            return {"link": link, "cursor": cursor}, False
        if self._options.cursor_column is None:
            tag = answer.headers.get("etag") if position.get("link") is None else None
            return {"tag": tag} if tag is not None else {}, True
        if not messages:
            # What is behind the end is asked for later, from where it was.
            return {"cursor": cursor}, True
        self._check_moves(cursor != position.get("cursor"))
        return {"cursor": cursor}, False

    def _behind_path(
        self, position: dict[str, Any], answer: Answer, messages: int
    ) -> tuple[dict[str, Any], bool]:
        """Where a page says itself how to go on: it is the last one if it does not, or has nothing and names itself."""
        cursor, link = self._named_cursor(answer), answer.next_link
        if cursor is not None and cursor.startswith(("http://", "https://", "/")):
            link, cursor = led_to(answer.url, cursor), position.get("cursor")
        is_over = link is None and cursor is None
        is_moving = link != self._address(position) if link is not None else cursor != position.get("cursor")
        if is_over or (not messages and not is_moving):
            # Later it is asked for again, and may have more.
            kept = {key: position[key] for key in ("link", "cursor") if position.get(key) is not None}
            return {**kept, "emitted": messages}, True
        self._check_moves(is_moving)
        return {"cursor": cursor} if link is None else {"link": link, "cursor": cursor}, False

    def _named_cursor(self, answer: Answer) -> str | None:
        if self._options.cursor_path is None or not answer.body:
            return None
        source = answer_of(shown_url(answer.url))
        found = value_at(answer.body, self._options.cursor_path, source)
        value = None if found is None else json_value(found, source)
        return None if value is None or value == "" else str(value)

    def _last_value(self, rows: pa.RecordBatch) -> str | None:
        """Of the cursor's column."""
        if self._options.cursor_column is None or not rows.num_rows:
            return None
        last = rows.column(self._options.cursor_column)[-1]
        return _text(last) if last.is_valid else None

    def _check_moves(self, is_moving: bool) -> None:
        if not is_moving:
            raise UserError(
                "SS5347",
                f'"{shown_url(self._options.url)}" gives rows, and says that they go on where they began',
            )

    def next_poll_ms(self) -> int | None:
        if self._background.is_under_way:
            return self._context.now_ms() + AWAITING_MS
        return self._next_ms

    def snapshot(self) -> list[dict[str, Any]]:
        return [dict(split) for split in self._splits]

    def close(self) -> None:
        self._abort()
        self._rows.close()
        self._background.close()
        self._client.close()


def _is_answer(answer: Answer) -> bool:
    return answer.status // 100 == 2 or answer.status == _NOT_MODIFIED


def _text(value: pa.Scalar) -> str:
    """As it stands in an address."""
    if pa.types.is_timestamp(value.type):
        return str(value.as_py().isoformat())
    return str(value.as_py())
