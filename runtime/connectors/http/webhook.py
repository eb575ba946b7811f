"""Connector `webhook`: rows that others POST to an address where the job listens.

A request is answered with 200 when a checkpoint has its rows, so that whoever sends it again after any other answer loses
none. One that bears an `Idempotency-Key` is read once, however often it is sent: the last keys are in the checkpoints too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlstream import config
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.http.bodies import messages_of
from sqlstream.runtime.connectors.http.listener import Listener, Waiting
from sqlstream.runtime.connectors.message_rows import REJECTED_MESSAGES, MessageRows, check_format
from sqlstream.runtime.connectors.one_connection import OneConnection
from sqlstream.runtime.connectors.rejected_rows import REJECTED_MESSAGES_OPTIONS
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import (
    Boundedness,
    ConnectorContext,
    ConnectorDescriptor,
    OptionType,
    Place,
    Reading,
    SourceReader,
    SourceStatus,
)
from sqlstream.spi.table_options import descriptors_of, option, parse_options

_KEYS_MAX = 10_000
_PORT_MAX = 65_535
_AWAITING_MS = 5
_TOKEN_LENGTH_MIN = 16
_REQUEST = "the request"


@dataclass(frozen=True, kw_only=True)
class WebhookOptions:
    """The options of a table."""

    port: int = option("port", OptionType.INTEGER, "The port to listen at.", is_required=True, minimum=1)
    token: str = option(
        "token",
        OptionType.STRING,
        "What requests have as `Authorization: Bearer …`, of 16 characters at least.",
        is_required=True,
    )
    hostname: str = option(
        "hostname",
        OptionType.STRING,
        "The address to listen at; 0.0.0.0 is all of the machine.",
        "127.0.0.1",
    )
    path: str = option("path", OptionType.STRING, "The path of the address.", "/")
    acknowledge: str = option(
        "acknowledge",
        OptionType.ENUM,
        "Whether a request is answered when a checkpoint has its rows, or when the job has read it.",
        "checkpoint",
        choices=("checkpoint", "receipt"),
    )
    bytes_max: int = option(
        "request.max-size",
        OptionType.MEMORY_SIZE,
        "The largest request.",
        "16 mb",
        minimum=1,
    )
    timeout_ms: int = option(
        "request.timeout",
        OptionType.DURATION,
        "How long a request may take to come, and then to wait for its checkpoint.",
        "1 min",
        minimum=1,
    )
    waiting_max: int = option(
        "requests.max-waiting",
        OptionType.INTEGER,
        "How many requests wait at most; others are answered with 503.",
        "1000",
        minimum=1,
    )


class Webhook(OneConnection):
    """One listener, so one reader has all rows."""

    descriptor = ConnectorDescriptor(
        "webhook",
        options=(*descriptors_of(WebhookOptions), *REJECTED_MESSAGES_OPTIONS),
        reading=Reading(boundedness=Boundedness(False), rejected_rows=REJECTED_MESSAGES),
        place=Place(options=("hostname", "port", "path"), has_format=True, has_messages=True),
    )

    first = {"taken": 0, "keys": []}

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        given = parse_options(WebhookOptions, options)
        if given.port > _PORT_MAX:
            raise UserError(
                "SS4002",
                f'option "port" cannot be {given.port}',
                option="port",
                hint=f"the largest is {_PORT_MAX}",
            )
        if not given.path.startswith("/") or "?" in given.path:
            raise UserError(
                "SS4002",
                f'option "path" is no path: "{given.path}"',
                option="path",
                hint="write such as '/orders'",
            )
        if len(given.token) < _TOKEN_LENGTH_MIN or not given.token.isascii() or not given.token.isprintable():
            raise UserError(
                "SS4002",
                f'option "token" needs {_TOKEN_LENGTH_MIN} characters of ASCII at least',
                option="token",
                hint="make one by such as: openssl rand -hex 16",
            )
        check_format(schema, options)

    def reader(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]]
    ) -> SourceReader:
        options = parse_options(WebhookOptions, spec.options)
        interval = config.get(context.config, "execution.checkpointing.interval")
        if options.acknowledge == "checkpoint" and not interval:
            raise UserError(
                "SS5349",
                f'table "{spec.table}" answers requests when a checkpoint has their rows, and the job takes none',
                hint="SET 'execution.checkpointing.interval' = '1 s', or add 'acknowledge' = 'receipt'",
            )
        return WebhookReader(spec, context, splits)


class WebhookReader:
    """Listens from its first poll on. State: how many requests it has read, and digests of the keys of the last
    ones."""

    def __init__(self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]]) -> None:
        self._context, self._spec = context, spec
        self._options = parse_options(WebhookOptions, spec.options)
        self._splits = [dict(split) for split in splits]
        self._format = spec.options["format"]
        self._rows = MessageRows(spec, context, "SS5346", _REQUEST)
        self._taken = max((int(split["taken"]) for split in self._splits), default=0)
        self._keys = dict.fromkeys(key for split in self._splits for key in split["keys"])
        self._waiting: dict[int, Waiting] = {}
        self._listener: Listener | None = None

    def poll(self) -> pa.RecordBatch | SourceStatus:
        if not self._splits:
            return SourceStatus.END
        if self._listener is None:
            options = self._options
            self._listener = Listener(
                options.hostname,
                options.port,
                options.path,
                options.token,
                options.bytes_max,
                options.timeout_ms / 1000,
                options.waiting_max,
            )
        batches: list[pa.RecordBatch] = []
        size = 0
        while size < self._context.batch_rows and (request := self._listener.take()) is not None:
            batch = self._read(request)
            if batch is not None and batch.num_rows:
                batches.append(batch)
                size += batch.num_rows
        if not batches:
            return SourceStatus.NOTHING_YET
        return pa.concat_batches(batches) if len(batches) > 1 else batches[0]

    def _read(self, request: Waiting) -> pa.RecordBatch | None:
        """The rows of a request, unless it was read before, or cannot be."""
        key, body, request.body = request.key, request.body, b""
        if key and key in self._keys:
            # It was read, and a checkpoint may have it: the next one that is complete certainly has.
            self._await(request)
            return None
        try:
            batch = self._rows.rows(messages_of(body, self._format, None, _REQUEST), are_numbered=False)
        except UserError as error:
            request.answer(400, error.message)
            return None
        self._context.count("numBytesIn", len(body))
        if key:
            self._keys[key] = None
            if len(self._keys) > _KEYS_MAX:
                del self._keys[next(iter(self._keys))]
        self._await(request)
        return batch

    def _await(self, request: Waiting) -> None:
        self._taken += 1
        if self._options.acknowledge == "receipt":
            request.answer(200, "taken")
        else:
            self._waiting[self._taken] = request
            if len(self._waiting) > 2 * self._options.waiting_max:
                # As many wait at most: the rest was given up, and no checkpoint has come since.
                self._waiting = {n: w for n, w in self._waiting.items() if not w.is_over}

    def on_checkpoint_completed(self, positions: Sequence[dict[str, Any]]) -> None:
        """Answer the requests that the checkpoint has."""
        taken = max((int(p["taken"]) for p in positions), default=0)
        for number in [n for n in self._waiting if n <= taken]:
            self._waiting.pop(number).answer(200, "stored")

    def next_poll_ms(self) -> int | None:
        return self._context.now_ms() + _AWAITING_MS

    def snapshot(self) -> list[dict[str, Any]]:
        return [{"taken": self._taken, "keys": list(self._keys)} for _ in self._splits]

    def close(self) -> None:
        self._rows.close()
        if self._listener is not None:
            self._listener.close()
