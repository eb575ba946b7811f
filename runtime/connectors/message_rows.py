"""Rows of messages that have no key and no offset: what comes over a connection, or in the answer to a request."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from sqlstream.errors import UserError
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
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext
from sqlstream.spi.format import HasMessages, MessageRequest, Rejected
from sqlstream.terminal_text import shortened

_TEXT_CHARACTERS_MAX = 200


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
    from. State: how many were decoded."""

    def __init__(
        self,
        spec: SourceSpec,
        context: ConnectorContext,
        code: str,
        place: str,
        added: tuple[str, ...] = (),
    ) -> None:
        """`added`: columns of the table that are decoded too, behind those that are read."""
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
        if not are_numbered:
            self._decoded = 0
        found = self._reader.decode(messages)
        count_events(self._reader, self._context.count)
        if found.rejected:
            self._reject(found.rejected)
        self._decoded += len(messages)
        if not metadata:
            return found.batch
        owners = None if found.owners is None else pa.array(found.owners)
        of_rows = {k: c if owners is None else c.take(owners) for k, c in metadata.items()}
        names = [*found.batch.schema.names, *of_rows]
        return pa.RecordBatch.from_arrays([*found.batch.columns, *of_rows.values()], names=names)

    def _reject(self, rejected: list[Rejected]) -> None:
        if skips_errors(self._options):
            self._context.count("numRecordsRejected", len(rejected))
            return
        first = rejected[0]
        what = f"message {self._decoded + first.line + 1} of {self._place}"
        otherwise = "read the messages with format 'raw', and decode them in the query"
        raise undecodable(self._code, what, first, self._identifier, self._identifier, otherwise)
