"""Reads a table page by page: each answer is one batch, and the position is the request that comes next."""

from __future__ import annotations

import threading
import urllib.parse
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.http.addresses import shown_url, with_parameters
from sqlstream.runtime.connectors.http.background import AWAITING_MS, Background
from sqlstream.runtime.connectors.http.bodies import messages_of, value_at
from sqlstream.runtime.connectors.http.client import Answer, HttpClient, Request, Retries
from sqlstream.runtime.connectors.http.options import ReadOptions, headers_of
from sqlstream.runtime.connectors.message_rows import MessageRows
from sqlstream.runtime.formats.file_rows import empty_columns
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
    the server knows whether an answer without either is another one."""

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
        page = self._page(position, answer, request)
        self._splits[0] = page.following
        if page.is_last:
            if self._options.interval_ms is None:
                self._splits = []
            else:
                self._next_ms = self._context.now_ms() + self._options.interval_ms
        if not page.batch.num_rows:
            return SourceStatus.END if not self._splits else SourceStatus.NOTHING_YET
        return page.batch

    def _page(self, position: dict[str, Any], answer: Answer, request: Request) -> Page:
        self._context.count("numBytesIn", len(answer.body))
        messages = pa.array([], pa.binary())
        if answer.status != _NOT_MODIFIED:
            place = shown_url(answer.url)
            messages = messages_of(answer.body, self._format, self._options.rows_path, place)
        decoded = self._rows.rows(messages)
        following, is_last = self._following(position, answer, decoded, request)
        batch = decoded
        if decoded.num_columns > self._columns:
            batch = decoded.select(range(self._columns)) if self._columns else empty_columns(decoded.num_rows)
        return Page(batch, following, is_last)

    def _request(self, position: dict[str, Any]) -> Request:
        headers, url = dict(self._headers), position.get("link") or self._options.url
        cursor = position.get("cursor")
        if position.get("link") is None and cursor is not None:
            url = with_parameters(url, {self._parameter: cursor})
        if position.get("tag") is not None:
            headers["if-none-match"] = position["tag"]
        return Request("GET", url, headers)

    @property
    def _parameter(self) -> str:
        return self._options.cursor_parameter or self._options.cursor_column or "cursor"

    def _following(
        self, position: dict[str, Any], answer: Answer, rows: pa.RecordBatch, request: Request
    ) -> tuple[dict[str, Any], bool]:
        """The position behind an answer, and whether there is no page behind it at present."""
        if answer.status == _NOT_MODIFIED:
            return position, True
        cursor = self._cursor(position, answer, rows)
        link = answer.next_link
        if (
            cursor is not None
            and cursor.startswith(("http://", "https://", "/"))
            and self._options.cursor_path
        ):
            link, cursor = urllib.parse.urljoin(answer.url, cursor), position.get("cursor")
        if link is not None:
            self._check_moves(link != request.url)
            return {"link": link, "cursor": cursor}, False
        has_cursor = self._options.cursor_column is not None or self._options.cursor_path is not None
        if not has_cursor:
            tag = answer.headers.get("etag") if position.get("link") is None else None
            return {"tag": tag} if tag is not None else {}, True
        if cursor is None or not rows.num_rows:
            # What is behind the end is asked for later, from where it was.
            return {"cursor": cursor if cursor is not None else position.get("cursor")}, True
        self._check_moves(cursor != position.get("cursor"))
        return {"cursor": cursor}, False

    def _cursor(self, position: dict[str, Any], answer: Answer, rows: pa.RecordBatch) -> str | None:
        """What the page says; that of the position when it says nothing."""
        before: str | None = position.get("cursor")
        if self._options.cursor_path is not None and answer.body:
            found = value_at(answer.body, self._options.cursor_path, shown_url(answer.url))
            value = None if found is None else msgspec.json.decode(found)
            return None if value is None or value == "" else str(value)
        if self._options.cursor_column is None or not rows.num_rows:
            return before
        last = rows.column(self._options.cursor_column)[-1]
        return _text(last) if last.is_valid else before

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
        self._background.close()
        self._client.close()


def _is_answer(answer: Answer) -> bool:
    return answer.status // 100 == 2 or answer.status == _NOT_MODIFIED


def _text(value: pa.Scalar) -> str:
    """As it stands in an address."""
    if pa.types.is_timestamp(value.type):
        return str(value.as_py().isoformat())
    return str(value.as_py())
