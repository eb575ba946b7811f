"""The connectors `http`, `http-sink` and `rest-lookup` as the engine sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.files.file_paths import named_paths, with_absolute_paths
from sqlstream.runtime.connectors.fixed_splits import FixedSplits, own_share
from sqlstream.runtime.connectors.http.options import (
    CERTIFICATE_OPTIONS,
    EARLIER_PREFIX,
    HTTP_OPTIONS,
    LOOKUP_ONLY_OPTIONS,
    SINK_OPTIONS,
    ReadOptions,
    check,
    write_options,
)
from sqlstream.runtime.connectors.message_rows import REJECTED_MESSAGES
from sqlstream.runtime.connectors.rejected_rows import KeepsRejectedMessages
from sqlstream.runtime.connectors.staged_rows import remove_staged_by, remove_staging, staging_directory
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi import connector
from sqlstream.spi.committable import Committable
from sqlstream.spi.connector import REJECTED_ROWS_PATH
from sqlstream.spi.files import Files
from sqlstream.spi.table_options import parse_options

_STAGING = "sink.staging-directory"
_PATHS = (
    _STAGING,
    REJECTED_ROWS_PATH,
    *CERTIFICATE_OPTIONS,
    *(EARLIER_PREFIX + key for key in CERTIFICATE_OPTIONS),
)


class Http(KeepsRejectedMessages):
    """What a server answers, and takes."""

    descriptor = connector.ConnectorDescriptor(
        "http",
        options=HTTP_OPTIONS,
        reading=connector.Reading(
            boundedness=connector.Boundedness(True, unless_set="http.source.poll.interval"),
            lookups=True,
            rejected_rows=REJECTED_MESSAGES,
        ),
        writing=connector.Writing(is_at_least_once=True, unless=("sink.delivery-guarantee", "exactly-once")),
        place=connector.Place(options=("url",), has_format=True, has_messages=True),
    )

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        check(table, schema, options)

    def source(
        self, spec: SourceSpec, context: connector.ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> connector.SourceReader:
        from sqlstream.runtime.connectors.http.source import HttpReader

        context.files.require_database_servers()
        if "{" in spec.options["url"]:
            raise UserError(
                "SS4003",
                f'table "{spec.table}" can only be looked up: its address has places for keys',
                hint="join it FOR SYSTEM_TIME AS OF a time of processing",
            )
        return HttpReader(spec, context, own_share(self, spec, context) if splits is None else splits)

    def split_enumerator(
        self, spec: SourceSpec, context: connector.EnumeratorContext, state: dict[str, Any] | None
    ) -> connector.SplitEnumerator:
        start = parse_options(ReadOptions, spec.options).cursor_start
        return FixedSplits([{} if start is None else {"cursor": start}], state)

    def lookup_source(
        self, spec: SourceSpec, keys: tuple[str, ...], context: connector.ConnectorContext
    ) -> connector.LookupSource:
        from sqlstream.runtime.connectors.http.lookup import HttpLookup

        context.files.require_database_servers()
        return HttpLookup(spec, keys, context)

    def sink(
        self, spec: SinkSpec, mode: ChangelogMode, context: connector.ConnectorContext
    ) -> connector.SinkWriter:
        from sqlstream.runtime.connectors.http.sink import HttpWriter, StagingWriter

        context.files.require_database_servers()
        if "{" in spec.options["url"]:
            raise UserError(
                "SS4003",
                f'table "{spec.table}" can only be looked up: its address has places for keys',
                hint="write to a table with another address",
            )
        return (StagingWriter if _is_staged(spec) else HttpWriter)(spec, context)

    def commit(
        self, spec: SinkSpec, checkpoint_id: int, committables: list[Committable], files: Files
    ) -> None:
        if committables:
            from sqlstream.runtime.connectors.http.sink import commit

            files.require_database_servers()
            commit(spec, checkpoint_id, committables, files)

    def abort(self, spec: SinkSpec, job_id: str, committables: list[Committable], files: Files) -> None:
        if _is_staged(spec):
            remove_staging(write_options(spec).staging_path, job_id, files)

    def remove_staged(self, spec: SinkSpec, job_id: str, writer_names: Sequence[str], files: Files) -> None:
        if _is_staged(spec):
            remove_staged_by(write_options(spec).staging_path, job_id, writer_names, files)

    def staging_directory(self, spec: SinkSpec, job_id: str, writer_id: str) -> str | None:
        if not _is_staged(spec):
            return None
        return staging_directory(write_options(spec).staging_path, job_id, writer_id)

    def paths(self, options: Mapping[str, str]) -> tuple[str, ...]:
        """Certificates, keys, and where rows are staged or kept."""
        return named_paths(options, _PATHS)

    def with_absolute_paths(self, options: Mapping[str, str], directory: str) -> Mapping[str, str]:
        return with_absolute_paths(options, _PATHS, directory)


def _is_staged(spec: SinkSpec) -> bool:
    return write_options(spec).delivery_guarantee == "exactly-once"


class HttpSink(Http):
    """The sink by the name that Flink's connector has for it."""

    descriptor = connector.ConnectorDescriptor(
        "http-sink",
        options=SINK_OPTIONS,
        writing=Http.descriptor.writing,
        place=Http.descriptor.place,
    )


class RestLookup(Http):
    """The lookup by the name of the connector that Flink's has been made from."""

    descriptor = connector.ConnectorDescriptor(
        "rest-lookup",
        options=LOOKUP_ONLY_OPTIONS,
        reading=connector.Reading(boundedness=connector.Boundedness(False), lookups=True),
        place=Http.descriptor.place,
    )

    def source(
        self, spec: SourceSpec, context: connector.ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> connector.SourceReader:
        raise UserError(
            "SS4003",
            f'table "{spec.table}" can only be looked up',
            hint="join it FOR SYSTEM_TIME AS OF a time of processing, or write 'connector' = 'http'",
        )
