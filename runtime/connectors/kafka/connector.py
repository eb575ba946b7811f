"""The connectors `kafka` and `upsert-kafka` as the engine sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlstream.changelog import ChangelogMode
from sqlstream.runtime.connectors.files.file_paths import absolute_path
from sqlstream.runtime.connectors.fixed_splits import own_share
from sqlstream.runtime.connectors.kafka.options import (
    DESCRIPTORS,
    UPSERT_DESCRIPTORS,
    KafkaOptions,
    check_schema,
    file_options,
)
from sqlstream.runtime.connectors.rejected_rows import KeepsRejectedMessages
from sqlstream.runtime.connectors.staged_rows import remove_staged_by, remove_staging, staging_directory
from sqlstream.schema import Field, Schema
from sqlstream.specs import EventSourceSpec, SinkSpec, SourceSpec
from sqlstream.spi import connector
from sqlstream.spi.committable import Committable
from sqlstream.spi.files import Files
from sqlstream.types import BIGINT, BYTES, INT, STRING, LogicalType, TypeRoot

_METADATA = {
    "topic": STRING.with_nullable(False),
    "partition": INT.with_nullable(False),
    "offset": BIGINT.with_nullable(False),
    "timestamp": LogicalType(TypeRoot.TIMESTAMP_LTZ, precision=3).with_nullable(False),
    "timestamp-type": STRING.with_nullable(False),
    "headers": LogicalType(
        TypeRoot.MAP, key=STRING.with_nullable(False), element=BYTES.with_nullable(False)
    ).with_nullable(False),
    "leader-epoch": INT,
}

_WRITTEN_METADATA = {
    "timestamp": LogicalType(TypeRoot.TIMESTAMP_LTZ, precision=3),
    "headers": LogicalType(TypeRoot.MAP, key=STRING, element=BYTES),
}
_TOPIC_OF_ROWS = connector.Destination("topic", places="topic", pattern="topic-pattern")

_REJECTED_ROWS = (
    Field("topic", STRING),
    Field("partition", INT),
    Field("offset", BIGINT),
    Field("reason", STRING),
    Field("key", BYTES),
    Field("value", BYTES),
)

_SAID_OF_READING = (connector.Said("isolation", "properties.isolation.level", "read_committed"),)
_SAID_OF_WRITING = (
    connector.Said("guarantee", "sink.delivery-guarantee", "at-least-once"),
    connector.Said("transactions", "sink.transactional-id-prefix"),
)


class Kafka(KeepsRejectedMessages):
    """Topics: each message is a row, or a change of one."""

    descriptor = connector.ConnectorDescriptor(
        "kafka",
        options=DESCRIPTORS,
        reading=connector.Reading(
            boundedness=connector.Boundedness(False, unless_set="scan.bounded.mode", set_default="unbounded"),
            metadata=_METADATA,
            limits=True,
            watermarks=True,
            rejected_rows=_REJECTED_ROWS,
            said=_SAID_OF_READING,
        ),
        writing=connector.Writing(
            is_at_least_once=True,
            unless=("sink.delivery-guarantee", "exactly-once"),
            metadata=_WRITTEN_METADATA,
            destination=_TOPIC_OF_ROWS,
            said=_SAID_OF_WRITING,
        ),
        place=connector.Place(
            options=("topic", "topic-pattern", "properties.bootstrap.servers"),
            has_format=True,
            has_messages=True,
            has_keys=True,
        ),
    )

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        check_schema(table, schema, KafkaOptions.of(options))

    def _options(self, spec: SourceSpec | SinkSpec) -> KafkaOptions:
        return KafkaOptions.of(spec.options)

    def source(
        self, spec: SourceSpec, context: connector.ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> connector.SourceReader:
        from sqlstream.runtime.connectors.kafka.source import KafkaReader

        context.files.require_database_servers()
        share = own_share(self, spec, context) if splits is None else splits
        return KafkaReader(spec, self._read_options(spec), context, share)

    def split_enumerator(
        self, spec: SourceSpec, context: connector.EnumeratorContext, state: dict[str, Any] | None
    ) -> connector.SplitEnumerator:
        from sqlstream.runtime.connectors.kafka.partitions import Partitions

        context.files.require_database_servers()
        return Partitions(self._read_options(spec), state)

    def on_job_finished(self, spec: SourceSpec, state: dict[str, Any], config: Mapping[str, str]) -> None:
        options = self._read_options(spec)
        # With a limit the end is not where reading has ended.
        if options.commits_with(config) and spec.limit < 0:
            from sqlstream.runtime.connectors.kafka.partitions import tell_group

            tell_group(options, state)

    def _read_options(self, spec: SourceSpec) -> KafkaOptions:
        options = self._options(spec)
        options.check_read()
        return options

    def sink(
        self, spec: SinkSpec, mode: ChangelogMode, context: connector.ConnectorContext
    ) -> connector.SinkWriter:
        from sqlstream.runtime.connectors.kafka.rows import RowMessages
        from sqlstream.runtime.connectors.kafka.sink import KafkaWriter

        context.files.require_database_servers()
        options = self._options(spec)
        writer: connector.SinkWriter
        if options.given.delivery_guarantee == "exactly-once":
            from sqlstream.runtime.connectors.kafka.transactions import TransactionalWriter

            writer = TransactionalWriter(spec, options, context)
        else:
            writer = KafkaWriter(spec, options, context)
        if options.buffer is None:
            return writer
        from sqlstream.runtime.connectors.kafka.last_rows import LastRowsWriter

        return LastRowsWriter(
            writer, RowMessages(spec, options, context.files).keys, options.buffer, context.now_ms
        )

    def commit(
        self, spec: SinkSpec, checkpoint_id: int, committables: list[Committable], files: Files
    ) -> None:
        # Unless they are staged, a checkpoint has waited until its rows were delivered.
        if committables:
            from sqlstream.runtime.connectors.kafka.transactions import commit

            files.require_database_servers()
            commit(self._options(spec), checkpoint_id, committables, files)

    def abort(self, spec: SinkSpec, job_id: str, committables: list[Committable], files: Files) -> None:
        if (path := self._staging_path(spec)) is not None:
            remove_staging(path, job_id, files)

    def remove_staged(self, spec: SinkSpec, job_id: str, writer_names: Sequence[str], files: Files) -> None:
        if (path := self._staging_path(spec)) is not None:
            remove_staged_by(path, job_id, writer_names, files)

    def staging_directory(self, spec: SinkSpec, job_id: str, writer_id: str) -> str | None:
        path = self._staging_path(spec)
        return staging_directory(path, job_id, writer_id) if path is not None else None

    def paths(self, options: Mapping[str, str]) -> tuple[str, ...]:
        """Certificates, keys, and where rows are staged."""
        return tuple(options[key] for key in file_options(options))

    def with_absolute_paths(self, options: Mapping[str, str], directory: str) -> Mapping[str, str]:
        named = {key: absolute_path(key, options[key], directory) for key in file_options(options)}
        return {**options, **named}

    def _staging_path(self, spec: SinkSpec) -> str | None:
        options = self._options(spec)
        if options.given.delivery_guarantee != "exactly-once":
            return None
        from sqlstream.runtime.connectors.kafka.transactions import staging_path

        return staging_path(options)


class UpsertKafka(Kafka):
    """Topics whose messages replace each other by key: each is the row of its key, or says that there is none."""

    descriptor = connector.ConnectorDescriptor(
        "upsert-kafka",
        options=UPSERT_DESCRIPTORS,
        reading=connector.Reading(
            mode=ChangelogMode.UPSERT,
            keeps_keys_together=True,
            boundedness=Kafka.descriptor.reading.boundedness,
            metadata=_METADATA,
            watermarks=True,
            rejected_rows=_REJECTED_ROWS,
            said=_SAID_OF_READING,
        ),
        writing=connector.Writing(
            mode=ChangelogMode.UPSERT,
            is_at_least_once=True,
            unless=("sink.delivery-guarantee", "exactly-once"),
            metadata=_WRITTEN_METADATA,
            destination=_TOPIC_OF_ROWS,
            said=_SAID_OF_WRITING,
        ),
        place=Kafka.descriptor.place,
    )

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        check_schema(table, schema, KafkaOptions.of_upsert(options))

    def _options(self, spec: SourceSpec | SinkSpec) -> KafkaOptions:
        if isinstance(spec, EventSourceSpec):
            return KafkaOptions.of_upsert(spec.options, spec.keys)
        key = spec.primary_key if isinstance(spec, SinkSpec) else ()
        return KafkaOptions.of_upsert(spec.options, tuple(spec.schema.names[i] for i in key))
