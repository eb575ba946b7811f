"""Rows of messages that have no key and no offset: what comes over a connection, or in the answer to a request."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.rejected_rows import (
    Origin,
    RejectedRows,
    time_text,
)
from sqlstream.runtime.formats import (
    IGNORE_PARSE_ERRORS,
    calling_through,
    can_skip_errors,
    count_events,
    event_demand,
    format_of,
    format_options,
    skips_errors,
    validate_format,
)
from sqlstream.schema import Field, Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext
from sqlstream.spi.format import HasMessages, MessageRequest, Rejected
from sqlstream.terminal_text import shortened
from sqlstream.types import BIGINT, BYTES, STRING, LogicalType, TypeRoot

_TEXT_CHARACTERS_MAX = 200

REJECTED_MESSAGES = (
    Field("place", STRING),
    Field("opened_at", LogicalType(TypeRoot.TIMESTAMP_LTZ, precision=3)),
    Field("number", BIGINT),
    Field("reason", STRING),
    Field("value", BYTES),
)
"""What `t$errors` has of an undecodable message: its number among those since the reader began, at `opened_at`. A message that
comes again is kept again."""


def check_format(schema: Schema, options: Mapping[str, str]) -> None:
    """UserError SS40xx for columns or options that the format cannot have."""
    identifier = options["format"]
    validate_format(identifier, identifier, schema, format_options(identifier, dict(options)))


def undecodable(
    code: str, what: str, first: Rejected, identifier: str, prefix: str, otherwise: str
) -> UserError:
    """The error of the first undecodable message. `prefix`: that of the format's options. `otherwise`: the hint for a format
    that cannot pass over such."""
    return UserError(
        code,
        f"could not decode {what}: {first.reason}",
        detail=f"it is: {shortened(first.text, _TEXT_CHARACTERS_MAX)}",
        hint=f"set '{prefix}.{IGNORE_PARSE_ERRORS}' = 'true' to count such messages and pass over them"
        if can_skip_errors(identifier)
        else otherwise,
    )


class MessageRows:
    """Decodes messages in the order in which they have come. `code` is the error of an undecodable one, `place` where they come
    from. State: how many were decoded, and the file of undecodable ones."""

    def __init__(
        self,
        spec: SourceSpec,
        context: ConnectorContext,
        code: str,
        place: str,
        added: tuple[str, ...] = (),
        *,
        keeps: bool = True,
    ) -> None:
        """`added`: columns of the table that are decoded too, behind those that are read. `keeps`: undecodable messages that are
        passed over are kept where the table says so."""
        self._context, self._code, self._place = context, code, place
        self._identifier = spec.options["format"]
        self._options = format_options(self._identifier, dict(spec.options))
        form = format_of(self._identifier)
        assert isinstance(form, HasMessages)
        demand = event_demand(spec, form)
        columns = (*spec.columns, *added)
        request = MessageRequest(spec.schema, columns, self._options, demand)
        self._reader = calling_through(form.message_reader(request), context.files)
        self._decoded = 0
        self._rejected = RejectedRows.of_messages(spec.options, context, keeps=keeps)
        opened = {"place": place, "opened_at": time_text(context.now_ms())}
        self._origin = Origin(opened, "number", place)

    def rows(
        self,
        messages: pa.Array,
        metadata: Mapping[str, pa.Array] | None = None,
        *,
        are_numbered: bool = True,
    ) -> pa.RecordBatch:
        """UserError `code` for an undecodable message, unless the format passes over these. `metadata`: columns of a value for
        each message, which come behind the others. The error has its number among all messages so far, or without `are_numbered`
        among these."""
        found = self._reader.decode(messages)
        count_events(self._reader, self._context.count)
        if found.rejected:
            self._reject(messages, found.rejected, self._decoded if are_numbered else 0)
        self._decoded += len(messages)
        if not metadata:
            return found.batch
        owners = None if found.owners is None else pa.array(found.owners)
        of_rows = {k: c if owners is None else c.take(owners) for k, c in metadata.items()}
        names = [*found.batch.schema.names, *of_rows]
        return pa.RecordBatch.from_arrays([*found.batch.columns, *of_rows.values()], names=names)

    def _reject(self, messages: pa.Array, rejected: list[Rejected], before: int) -> None:
        """`before`: how many messages an error counts before these."""
        if not skips_errors(self._options):
            first = rejected[0]
            what = f"message {before + first.line + 1} of {self._place}"
            otherwise = "read the messages with format 'raw', and decode them in the query"
            raise undecodable(self._code, what, first, self._identifier, self._identifier, otherwise)
        rejected = sorted(rejected, key=lambda r: r.line)
        rows = [Rejected(self._decoded + r.line + 1, r.reason, r.text) for r in rejected]
        values = messages.take(pa.array([r.line for r in rejected])).to_pylist()
        self._rejected.keep(self._origin, rows, [{"value": value} for value in values])

    def close(self) -> None:
        self._rejected.close()
