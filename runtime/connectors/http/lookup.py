"""Asks a server for the rows of keys: a request for each key, some at once."""

from __future__ import annotations

import json
import re
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.connectors.http.bodies import answer_of, content_type, messages_of
from sqlstream.runtime.connectors.http.options import (
    RequestOptions,
    field_names,
    headers_of,
    plain,
    status_codes,
)
from sqlstream.runtime.connectors.message_rows import MessageRows
from sqlstream.runtime.host.http_addresses import shown_url, with_parameters
from sqlstream.runtime.host.http_client import HttpClient, Request, failure_of
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext
from sqlstream.spi.table_options import parse_options


class HttpLookup:
    """The answer for a key is its row, or a list of rows. Key columns that an answer does not have are those of its key; rows of
    another key are left out. State: connections, and the answers for keys of a batch that failed for another key."""

    def __init__(self, spec: SourceSpec, keys: tuple[str, ...], context: ConnectorContext) -> None:
        given = plain(spec.options)
        options = parse_options(RequestOptions, given)
        self._spec, self._keys, self._context, self._options = spec, keys, context, options
        self._headers = headers_of(given, "http.source.lookup.header.")
        self._format = given["format"]
        self._rows = MessageRows(spec, context, "SS5346", shown_url(options.url), keeps=False)
        self._fields = _Fields.of(options, keys)
        self._success = status_codes("", options.success_codes)
        self._ignored = status_codes("", options.ignored_codes)
        self._retried = status_codes("", options.retry_codes)
        self._client = HttpClient(
            context.files, options.certificates, options.lookup_timeout_s, options.bytes_max
        )
        threads = options.lookup_threads if options.is_concurrent else 1
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="http-lookup")
        self._answered: dict[tuple[str, bytes | None], pa.Array] = {}
        context.on_cancel(self._client.abort)

    def lookup(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """A request for each key: there is no other way to ask, so this is a loop in Python."""
        texts = {name: _texts(column) for name, column in zip(keys.schema.names, keys.columns, strict=True)}
        requests = [
            self._request({name: of_keys[i] for name, of_keys in texts.items()}, keys, i)
            for i in range(keys.num_rows)
        ]
        found = list(self._threads.map(self._known_messages, requests))
        self._answered.clear()
        counts = [len(messages) for messages in found]
        messages = pa.concat_arrays([pa.array([], pa.binary()), *found])
        self._context.count("numBytesIn", messages.nbytes)
        places = np.repeat(np.arange(len(found)), counts).astype(np.int64)
        rows = self._rows.rows(messages, {_KEY: pa.array(places)})
        return self._of_keys(rows, keys)

    def _of_keys(self, rows: pa.RecordBatch, keys: pa.RecordBatch) -> pa.RecordBatch:
        places = rows.column(rows.num_columns - 1)
        columns = list(rows.columns[:-1])
        is_of_key = pa.array(np.ones(rows.num_rows, dtype=bool))
        for name in self._keys:
            at = self._spec.columns.index(name)
            asked = keys.column(name).take(places)
            differs = pc.fill_null(pc.not_equal(columns[at], asked), False)
            is_of_key = pc.and_(is_of_key, pc.invert(differs))
            columns[at] = pc.coalesce(columns[at], asked)
        made = pa.RecordBatch.from_arrays(columns, names=list(self._spec.columns))
        return made.filter(is_of_key)

    def _request(self, texts: dict[str, str], keys: pa.RecordBatch, row: int) -> Request:
        options, headers = self._options, dict(self._headers)
        url = re.sub(
            r"\{(\w+)\}", lambda m: self._part_of_path(texts[self._fields.of_url[m[1]]]), options.url
        )
        if self._fields.of_query:
            url = with_parameters(url, {name: texts[name] for name in self._fields.of_query})
        body = None
        if self._fields.of_body:
            values = {name: keys.column(name)[row].as_py() for name in self._fields.of_body}
            body = json.dumps(values, default=str).encode()
            if not any(name.lower() == "content-type" for name in headers):
                headers["content-type"] = content_type("json")
        return Request(options.lookup_method, url, headers, body)

    def _part_of_path(self, text: str) -> str:
        """UserError SS5344 for a key that would lead to another place of the server."""
        if text in ("", ".", ".."):
            raise UserError(
                "SS5344",
                f'the key "{text}" has no place in the address of "{shown_url(self._options.url)}"',
                hint="filter such rows out before the join, or send the key as a parameter: ?id={id}",
            )
        return urllib.parse.quote(text, "")

    def _known_messages(self, request: Request) -> pa.Array:
        place = request.url, request.body
        if place not in self._answered:
            self._answered[place] = self._messages(request)
        return self._answered[place]

    def _messages(self, request: Request) -> pa.Array:
        """Of one key. ExternalError for what the join may try again."""
        answer = self._client.call(request)
        if answer.status in self._ignored:
            return pa.array([], pa.binary())
        if answer.status not in self._success:
            failure = failure_of(answer, request)
            if answer.status in self._retried and not isinstance(failure, ExternalError):
                return self._raise_as_passing(failure)
            if answer.status not in self._retried and isinstance(failure, ExternalError):
                raise UserError("SS5344", failure.message, detail=failure.detail)
            raise failure
        place = shown_url(answer.url)
        messages = messages_of(answer.body, self._format, None, answer_of(place))
        if self._options.result_type == "single-value" and len(messages) > 1:
            raise UserError(
                "SS5344",
                f'"{place}" answers with {len(messages)} rows for a key',
                hint="set 'http.source.lookup.result-type' = 'array'",
            )
        return messages

    def _raise_as_passing(self, failure: UserError) -> Any:
        raise ExternalError("SS5342", failure.message, detail=failure.detail)

    def load(self, rows_max: int) -> pa.RecordBatch:
        raise UserError(
            "SS4003",
            f'table "{self._spec.table}" cannot be loaded as a whole',
            hint="look it up by key: leave 'lookup.cache' = 'FULL' out",
        )

    def close(self) -> None:
        self._client.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


_KEY = "$key"
"""The column with the place of the key that a row was asked for by."""


class _Fields:
    """Where key columns stand in a request: in the address by name, in its parameters, in the body."""

    def __init__(self, of_url: dict[str, str], of_query: tuple[str, ...], of_body: tuple[str, ...]) -> None:
        self.of_url, self.of_query, self.of_body = of_url, of_query, of_body

    @staticmethod
    def of(options: RequestOptions, keys: tuple[str, ...]) -> _Fields:
        """UserError SS5344 for columns of the request that the join has no value of."""
        of_url = options.url_names
        query, body = field_names(options.query_fields), field_names(options.body_fields)
        absent = next((n for n in (*of_url.values(), *query, *body) if n not in keys), None)
        if absent is not None:
            raise UserError(
                "SS5344",
                f'a request needs a value of "{absent}", and the join compares {", ".join(keys)}',
                hint=f'add a condition on "{absent}" to the join, or leave it out of the request',
            )
        rest = tuple(k for k in keys if k not in (*of_url.values(), *query, *body))
        if options.lookup_method == "GET":
            return _Fields(of_url, (*query, *rest), ())
        return _Fields(of_url, query, (*body, *rest))


def _texts(column: pa.Array) -> list[str]:
    """Values as they stand in an address."""
    if pa.types.is_timestamp(column.type):
        return [str(value.isoformat()) for value in column.to_pylist()]
    if pa.types.is_boolean(column.type) or not pa.types.is_string(column.type):
        return [str(text) for text in pc.cast(column, pa.string()).to_pylist()]
    return [str(text) for text in column.to_pylist()]
