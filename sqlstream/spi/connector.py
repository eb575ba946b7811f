"""The two halves of a connector: a declaration, which the planner reads, and protocols, which the runtime calls.

A connector is one file in runtime/connectors plus one line in its registry. The planner sees only the `ConnectorDescriptor`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from sqlstream.changelog import ChangelogMode
from sqlstream.config_option import parse_boolean, parse_duration_ms, parse_memory_bytes
from sqlstream.schema import Field, Schema
from sqlstream.spi.committable import Committable
from sqlstream.spi.files import Files
from sqlstream.types import STRING, LogicalType

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.specs import SinkSpec, SourceSpec


class OptionType(enum.Enum):
    STRING = "String"
    INTEGER = "Integer"
    LONG = "Long"
    DOUBLE = "Double"
    BOOLEAN = "Boolean"
    DURATION = "Duration"
    MEMORY_SIZE = "MemorySize"
    ENUM = "Enum"


class OptionDescriptor(msgspec.Struct, frozen=True):
    """One option of a connector or format. `key` may hold `#` for a column name (datagen: `fields.#.min`). `default` is
    text, None when there is none. `choices` is set for ENUM. `minimum` bounds numbers. `takes_computed`: the column may be a
    computed one, for which the option has no effect."""

    key: str
    type: OptionType
    description: str
    default: str | None = None
    is_required: bool = False
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    takes_computed: bool = False

    def parse(self, text: str) -> Any:
        """The value: a DURATION in milliseconds, a MEMORY_SIZE in bytes, an ENUM as its choice is written in the descriptor.
        ValueError for text of another type."""
        if self.type is OptionType.ENUM:
            chosen = [choice for choice in self.choices if choice.lower() == text.lower()]
            if not chosen:
                raise ValueError(text)
            return chosen[0]
        return _PARSERS[self.type](text)


INTEGERS_MAX = {
    OptionType.INTEGER: 2**31 - 1,
    OptionType.LONG: 2**63 - 1,
    OptionType.DURATION: 2**63 - 1,
    OptionType.MEMORY_SIZE: 2**63 - 1,
}
"""The largest value of a type of whole numbers: Java's, so that it fits where it is computed with."""

_PARSERS: dict[OptionType, Callable[[str], Any]] = {
    OptionType.STRING: str,
    OptionType.INTEGER: int,
    OptionType.LONG: int,
    OptionType.DOUBLE: float,
    OptionType.BOOLEAN: parse_boolean,
    OptionType.DURATION: parse_duration_ms,
    OptionType.MEMORY_SIZE: parse_memory_bytes,
}


class Boundedness(msgspec.Struct, frozen=True):
    """When a table read through this connector ends: always, never, or depending on whether the option `unless_set` is set (to
    something else than `set_default`) or the number of the option `unless_positive` is above 0."""

    bounded: bool
    unless_set: str = ""
    set_default: str | None = None
    unless_positive: str = ""

    def is_bounded(self, options: dict[str, str]) -> bool:
        is_positive = int(options.get(self.unless_positive, 0)) > 0
        given = options.get(self.unless_set) if self.unless_set else None
        # Words of options are known in any case, and numbers with blanks around them.
        is_set = given is not None and given.strip().lower() != self.set_default
        return self.bounded != (is_set or is_positive)


class Said(msgspec.Struct, frozen=True):
    """An option that EXPLAIN names, as `label`, where the table is read or written, with `default` unless it is given."""

    label: str
    option: str
    default: str = ""


def said_options(said: Sequence[Said], options: Mapping[str, str]) -> dict[str, str]:
    """Values by labels, without those that are empty."""
    found = {each.label: options.get(each.option, each.default) for each in said}
    return {label: value for label, value in found.items() if value}


class Reading(msgspec.Struct, frozen=True):
    """How a connector reads tables.

    `mode`: the changelog that readers give, whatever the format; UPSERT is one by the primary key, which a table must have. With
    `keeps_keys_together` all changes of a row are in one split, so that several readers share them.
    `metadata` maps metadata keys to types. `filters`: the reader takes pushed filters as hints; with `filters_exactly` it applies
    them to every row, and the plan does not repeat them. `limits`: it takes a pushed limit. `watermarks`: readers apply
    `SourceSpec.watermark` and implement `MakesWatermarks`, because they read several splits whose event times overlap.
    `lookups`: a lookup join can read the table by key (`LooksUp`), with the options of sqlstream/spi/lookup.py.

    `counts_rows`: a position is a number of rows. A reader that goes on reads the table again and passes over as many, which are
    the same ones only while nobody changes the table. `reads_once`: rows come once, so that those since the last checkpoint are
    lost with a failure. `rejected_rows`: of a connector that `KeepsRejectedRows`, the columns of those that could not be
    decoded, beside their job and the time. Connector `filesystem` with the option `source.reads` = 'rejected-rows' and format
    `json` reads them, in the directory that the table's option `source.rejected-rows.path` names. `schemas`: the connector fixes
    the columns, for each value of the option `schema_option`; a DDL column of another name or type is refused (nexmark).
    """

    boundedness: Boundedness = Boundedness(True)
    mode: ChangelogMode = ChangelogMode.INSERT_ONLY
    keeps_keys_together: bool = False
    metadata: dict[str, LogicalType] = {}
    filters: bool = False
    filters_exactly: bool = False
    limits: bool = False
    watermarks: bool = False
    lookups: bool = False
    counts_rows: bool = False
    reads_once: bool = False
    rejected_rows: tuple[Field, ...] = ()
    schema_option: str = ""
    schemas: dict[str, Schema] = {}
    said: tuple[Said, ...] = ()
    is_offered: bool = True


class Destination(msgspec.Struct, frozen=True):
    """Which of several places a row goes to: the metadata `key` says it in a table whose option `places` names several, separated
    by semicolons, or that has the option `pattern`. In such a table it must be written, and in another one it cannot be."""

    key: str
    places: str
    pattern: str

    def is_chosen(self, options: Mapping[str, str]) -> bool:
        named = [place for place in options.get(self.places, "").split(";") if place.strip()]
        return self.pattern in options or len(named) > 1


class Writing(msgspec.Struct, frozen=True):
    """How a connector writes tables.

    `mode` is the widest changelog that the sink accepts. `takes_upserts`: it needs no -U rows even when the table has no primary
    key (blackhole). `is_at_least_once`: rows are out when they are written, so that those since the last checkpoint come again
    after a failure; `unless` names an option, and the value with which a table is exactly once. `changes_rows`: the sink takes a
    `ChangingSinkSpec`, for INSERT OVERWRITE, TRUNCATE, UPDATE and DELETE. `metadata` maps the metadata keys that can be written
    to types, without that of `destination`, which is a text.
    """

    mode: ChangelogMode = ChangelogMode.INSERT_ONLY
    takes_upserts: bool = False
    is_at_least_once: bool = False
    unless: tuple[str, str] = ("", "")
    changes_rows: bool = False
    metadata: dict[str, LogicalType] = {}
    destination: Destination | None = None
    said: tuple[Said, ...] = ()
    is_offered: bool = True

    def metadata_of(self, options: Mapping[str, str]) -> dict[str, LogicalType]:
        """What can be written of a table with these options."""
        chosen = self.destination is not None and self.destination.is_chosen(options)
        return (
            {**self.metadata, self.destination.key: STRING} if chosen and self.destination else self.metadata
        )

    def repeats_rows(self, options: Mapping[str, str]) -> bool:
        """Whether rows of a table with these options may come again after a failure."""
        key, value = self.unless
        return self.is_at_least_once and not (key and options.get(key, "").lower() == value)


class Place(msgspec.Struct, frozen=True):
    """Where a table is, and how its rows lie there.

    `options` name the place. A reader begins elsewhere when they change; one of an unbounded table finds what is there.
    `has_format`: rows are in a format, which the option `format` names; with `has_messages` it is one whose rows may be messages.
    `has_keys`: messages have keys, too, so that `value.format` and `key.format` name formats. `partitions`: a table may be
    PARTITIONED BY some of its columns.
    """

    options: tuple[str, ...] = ()
    has_format: bool = False
    has_messages: bool = False
    has_keys: bool = False
    partitions: bool = False


class ConnectorDescriptor(msgspec.Struct, frozen=True):
    """The declaration of a connector, which is all that the planner reads of it: what it does that is left out, it does not do.

    >>> ConnectorDescriptor("ticks", options=(), reading=Reading(limits=True)).is_sink
    False

    `is_internal`: no table can name it.
    """

    identifier: str
    options: tuple[OptionDescriptor, ...]
    reading: Reading = Reading(is_offered=False)
    writing: Writing = Writing(is_offered=False)
    place: Place = Place()
    is_internal: bool = False

    @property
    def is_source(self) -> bool:
        return self.reading.is_offered

    @property
    def is_sink(self) -> bool:
        return self.writing.is_offered


class SourceStatus(enum.Enum):
    """What `poll` returns when it has no batch: no rows at present, or the end of the rows."""

    NOTHING_YET = "NOTHING_YET"
    END = "END"


@dataclass
class ConnectorContext:
    """What a reader or writer may use of its surroundings.

    `now_ms` is the clock. `batch_rows` is the target (not a limit) for the rows of a batch. `count(name, n)` adds to a metric
    of the operator (`numRecordsRejected`, `numBytesIn`, …). `files` is the file system of runtime/host (tests pass one that
    fails). `job_id` and `vertex_id` name temporary files. `emit_result(batch)` sends rows to the client (connector
    `collect`), and `print_line` writes to the user's terminal (connector `print`). `on_cancel(interrupt)` has another thread call
    `interrupt` when the task is cancelled, for calls that take long. `writer_name` is another one for each writer of any job, and
    known to the JobManager; empty where no job runs. `is_first`: no earlier attempt has run, and the job goes on from no
    checkpoint, so that what is not there is told at once instead of waited for.
    """

    job_id: str
    vertex_id: str
    subtask: int
    parallelism: int
    attempt: int
    batch_rows: int
    config: dict[str, str]
    now_ms: Callable[[], int]
    count: Callable[[str, int], None]
    files: Files
    emit_result: Callable[[pa.RecordBatch], None] = lambda batch: None
    print_lines: Callable[[list[str], bool], None] = lambda lines, is_error: None
    on_cancel: Callable[[Callable[[], None]], None] = lambda interrupt: None
    writer_name: str = ""
    is_first: bool = False


REJECTED_ROWS_PATH, READS, REJECTED_ROWS = "source.rejected-rows.path", "source.reads", "rejected-rows"
"""The options that name the directory of undecodable rows, and what a table reads: with REJECTED_ROWS these."""

FOR_EVERY_READER = "for_every_reader"
"""A position with this key that is true is not read: each reader gets it when more or fewer readers go on from a snapshot."""


@dataclass(frozen=True)
class SourceSplit:
    """A part of a table that one reader reads. `position` is JSON-able: where it begins, as readers take it and as their
    snapshots have it. `weight` says how much there is to read, in a unit that all splits of the table share."""

    position: dict[str, Any]
    weight: int = 1


@dataclass(frozen=True)
class Discovery:
    """What a look at a table has found: the splits that no look before has found. `is_last`: there is no further look.
    `is_on_demand`: splits may wait until a reader asks for one; otherwise each has its reader at once, since their rows overlap
    in time. `holds_watermark`: what was found is not all that may still come from before the present rows."""

    splits: tuple[SourceSplit, ...]
    is_last: bool
    is_on_demand: bool = False
    holds_watermark: bool = False


@dataclass(frozen=True)
class EnumeratorContext:
    """What an enumerator may use of its surroundings: the number of readers, and as in ConnectorContext. `batch_rows_max`: what
    `batch_rows` of its readers may become while the job runs; 0 if it stays."""

    parallelism: int
    batch_rows: int
    now_ms: Callable[[], int]
    files: Files
    batch_rows_max: int = 0


class SplitEnumerator(Protocol):
    """Finds the splits of a table. Called by one thread at a time; it never touches rows.

    State: what it has found, if it looks more than once."""

    def discover(self) -> Discovery:
        """Look, or look again. UserError or ExternalError when the table cannot be read."""

    @property
    def interval_ms(self) -> int:
        """How long after a look that was not the last the next one is due."""

    def give_back(self, positions: list[dict[str, Any]]) -> None:
        """Readers could not read these splits as they were found; what is at their places is looked for again."""

    def snapshot(self) -> dict[str, Any]:
        """What was found, JSON-able, for an enumerator that goes on from here."""


@runtime_checkable
class EnumeratesSplits(Protocol):
    """A connector whose readers are assigned their splits."""

    def split_enumerator(
        self, spec: SourceSpec, context: EnumeratorContext, state: dict[str, Any] | None
    ) -> SplitEnumerator:
        """`state`: a snapshot to go on from; None for a fresh start."""


@runtime_checkable
class NotesEnd(Protocol):
    """A connector that tells the places that it reads how far a job has come that has finished."""

    def on_job_finished(self, spec: SourceSpec, state: dict[str, Any], config: Mapping[str, str]) -> None:
        """All splits of a table are read, and all sinks of the job are committed. `state`: the last snapshot of its enumerator;
        `config`: the job's. An error is logged: the job has finished all the same."""


class SourceReader(Protocol):
    """Reads the share of one subtask. One thread calls it; `poll` must return within about 100 ms."""

    def poll(self) -> pa.RecordBatch | SourceStatus:
        """The next batch in the layout of the SourceSpec (columns, then metadata), or a status. After a batch without rows
        the caller polls again at once."""

    def next_poll_ms(self) -> int | None:
        """After NOTHING_YET: the time, by the context's clock, at which to call `poll` again; None: soon."""

    def snapshot(self) -> list[dict[str, Any]]:
        """The position to resume from: one JSON-able dict for each split that this reader still has."""

    def close(self) -> None: ...


@runtime_checkable
class WaitsForDescriptor(Protocol):
    """A reader that has rows when a file descriptor can be read (a socket, a pipe), so that its task is woken then and no poll
    is needed meanwhile."""

    def wait_fileno(self) -> int | None:
        """After NOTHING_YET: the descriptor, from which the next `poll` takes what can be read; `next_poll_ms` says when to poll
        at the latest. None when there is none at present. It is closed by `close`, or when another one, or none, was named."""


@runtime_checkable
class MakesWatermarks(Protocol):
    """A reader that computes a watermark for each of its splits (SourceSpec.watermark is set)."""

    def watermark_ms(self) -> int:
        """The watermark after the rows that `poll` has returned: the minimum over the unfinished splits, including those
        not begun. It never falls; WATERMARK_MIN until every such split has a watermark."""


@runtime_checkable
class TurnsIdle(MakesWatermarks, Protocol):
    """A reader that may have no split at times: nobody waits for its watermark then."""

    @property
    def is_idle(self) -> bool: ...


@runtime_checkable
class AlignsSplits(MakesWatermarks, Protocol):
    """A reader that can leave alone the splits that are ahead of others, while it reads these."""

    def align(self, watermark_ms: int) -> None:
        """Until the next call, read no split whose watermark is above this one. Such a split is not idle. It is called between
        two polls, also with the same watermark again. A reader whose own watermark is above it is not polled."""


class SplitFigures(NamedTuple):
    """Where a reader is in one split. `pending` are the rows that are there and not read, None where that is not known;
    `is_idle`: nobody waits for its watermark."""

    name: str
    pending: int | None = None
    watermark_ms: int | None = None
    is_idle: bool = False


@runtime_checkable
class MeasuresSplits(Protocol):
    """A reader that knows how much is left to read, or which of its splits holds its watermark."""

    def measure(self) -> Sequence[SplitFigures]:
        """Its unfinished splits. Called between two polls, every second or so; it waits for nobody."""


@runtime_checkable
class NotesCheckpoints(Protocol):
    """A reader that tells the place that it reads how far jobs have come."""

    def on_checkpoint_completed(self, positions: Sequence[dict[str, Any]]) -> None:
        """A checkpoint is complete that has these positions, as `snapshot` gave them. A place that cannot be told is no error:
        the next checkpoint says more."""


@dataclass(frozen=True)
class AssignedSplits:
    """Splits for a reader that runs. `is_last`: it gets no more. `holds_watermark`: until the next assignment its watermark must
    stay, because rows from before it may still come. `returned`: how many of the splits that this reader has returned are looked
    for again, so that it can forget them."""

    positions: tuple[dict[str, Any], ...]
    is_last: bool
    holds_watermark: bool = False
    returned: int = 0


@runtime_checkable
class TakesSplits(Protocol):
    """A reader that gets splits while it runs. Until the first assignment it takes those that it was made with for all."""

    def add_splits(self, assigned: AssignedSplits) -> None: ...

    @property
    def wants_splits(self) -> bool:
        """Whether it takes further splits now. `poll` returns NOTHING_YET while it has none to read."""

    @property
    def returned_splits(self) -> tuple[dict[str, Any], ...]:
        """The splits that it has given up, as they could not be read as they were found, in this order. Those that
        `AssignedSplits.returned` counts are left out."""


class SinkWriter(Protocol):
    """Writes the rows of one subtask. Nothing may be visible as complete before `commit` of the connector."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Rows in the layout of the SinkSpec; a changelog batch when the input mode is not INSERT_ONLY."""

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        """Make durable what was written since the last call, and return it for `commit` of that checkpoint, or of the next one
        that is completed. Ids grow. Rows may follow, except after LAST_CHECKPOINT_ID, which is the end of the input: nothing is
        called then."""

    def abort(self) -> None:
        """The task failed or was cancelled: remove what no `prepare_commit` has returned. Called once, instead of
        `prepare_commit(LAST_CHECKPOINT_ID)`."""


@runtime_checkable
class TakesWatermarks(Protocol):
    """A writer whose committables depend on the event time that its input has reached."""

    def on_watermark(self, watermark_ms: int) -> None: ...


@runtime_checkable
class WritesLater(Protocol):
    """A writer that holds rows for some time, to write fewer of them. `prepare_commit` writes those that it holds, too."""

    def next_flush_ms(self) -> int | None:
        """When, by the context's clock, it is to write what it holds; None when it holds nothing."""

    def flush(self) -> None:
        """Write what it holds."""


class Connector(Protocol):
    """A connector as the registry holds it. Its module must be cheap to import: methods import heavy libraries."""

    descriptor: ConnectorDescriptor

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        """Checks that need more than the descriptor (a pair of options that exclude each other). UserError SS40xx."""

    def source(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> SourceReader:
        """A reader of these splits: those that were assigned to it, or snapshots to resume from. None: a reader that takes its
        share by itself, as in a batch engine."""

    def sink(self, spec: SinkSpec, mode: ChangelogMode, context: ConnectorContext) -> SinkWriter: ...

    def commit(
        self, spec: SinkSpec, checkpoint_id: int, committables: list[Committable], files: Files
    ) -> None:
        """Make what all subtasks wrote for a completed checkpoint visible, all or none as far as readers can see. Checkpoints
        come in their order; `committables` are also those of checkpoints before it that were not completed. A commit that is
        repeated, also after one that broke off at any point, completes that one and makes nothing visible twice."""


class LookupSource(Protocol):
    """Reads a table by key. One thread calls it."""

    def lookup(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """All rows whose key columns equal one of `keys`: distinct keys without NULLs, in the Arrow types of the columns'
        logical types. The result has the columns of the SourceSpec, its rows in any order; rows that its filters exclude may
        be among them. ExternalError when the table cannot be read, with `retry` where trying again can help."""

    def load(self, rows_max: int) -> pa.RecordBatch:
        """The whole table, in the same layout. ExternalError as above; UserError SS5064 for more than `rows_max` rows."""

    def close(self) -> None: ...


@runtime_checkable
class LooksUp(Protocol):
    """A connector whose tables can be read by key."""

    def lookup_source(
        self, spec: SourceSpec, keys: tuple[str, ...], context: ConnectorContext
    ) -> LookupSource:
        """A reader by the columns `keys`, which are among `spec.columns`."""


@runtime_checkable
class KeepsRejectedRows(Protocol):
    """A connector that keeps rows which could not be decoded."""

    def without_rejected_files(self, spec: SourceSpec) -> SourceSpec:
        """The source of a SELECT, which writes no files: unless the table names a directory, undecodable rows are counted,
        and the first ones printed."""

    def rejected_rows_directory(self, spec: SourceSpec) -> str | None:
        """The place where it keeps the undecodable rows of this source; None when it only counts them."""


@runtime_checkable
class NamesPaths(Protocol):
    """A connector whose tables are files."""

    def paths(self, options: Mapping[str, str]) -> tuple[str, ...]:
        """The local files or directories that a table with these options names; of a pattern, the directory that all its files
        are in. UserError for an option that can be no path."""

    def with_absolute_paths(self, options: Mapping[str, str], directory: str) -> Mapping[str, str]:
        """The options that name the same files, with relative paths below `directory`, for another process."""


@runtime_checkable
class CopiesTables(Protocol):
    """A connector whose tables can be tried without being touched."""

    def empty_copy(self, options: Mapping[str, str], place: str) -> dict[str, str] | None:
        """The options of a table without rows that is otherwise like this one, at the local path `place`. The table is there, or
        the first INSERT makes it. None for a table that has no copy, such as one in a database server."""


@runtime_checkable
class MeasuresInput(Protocol):
    """A connector that can estimate the size of a bounded table before a job starts."""

    def input_bytes(self, spec: SourceSpec, files: Files) -> int:
        """An upper estimate of the present bytes of the table's rows, decompressed. Never fails: a table that cannot be
        read has no estimate."""


@runtime_checkable
class AbortsCommittables(Protocol):
    """A connector whose subtasks leave uncommitted output, such as hidden files, when they are not committed."""

    def abort(self, spec: SinkSpec, job_id: str, committables: list[Committable], files: Files) -> None:
        """Remove what the job has staged for checkpoints that will never be completed, also what a dead process has not reported.
        Remove what `commit` has made visible of `committables` too: the commit of another sink failed. Nobody writes for the job
        meanwhile, and no completed checkpoint waits for its commit. What was committed before stays. Idempotent."""


@runtime_checkable
class NamesStagedRows(Protocol):
    """A connector that finds what a writer has staged by `ConnectorContext.writer_name`."""

    def remove_staged(self, spec: SinkSpec, job_id: str, writer_names: Sequence[str], files: Files) -> None:
        """Remove what these writers have staged. They have died, the job goes on with others, and all commits that had rows of
        them are complete. Idempotent."""


@runtime_checkable
class NotesCommits(Protocol):
    """A connector that notes beside a table what a job has still to do there behind its commits, such as marks of partitions."""

    def begin_with(self, spec: SinkSpec, earlier_job_id: str, job_id: str, files: Files) -> None:
        """A job begins with a checkpoint or savepoint of an earlier one, and does what that one has still to do. The earlier one
        may live, and may have commits that this one repeats. Idempotent; called before anything is written for the job."""


@runtime_checkable
class KnowsVersions(Protocol):
    """A connector that rewrites a whole table for an UPDATE or DELETE, and refuses to when the table has changed meanwhile."""

    def version(self, spec: SinkSpec, files: Files) -> str:
        """Another text whenever the rows of the table are others; empty for a table that is not there."""


@runtime_checkable
class ListsPartitions(Protocol):
    """A connector that can tell which partitions a table has."""

    def partitions(self, options: Mapping[str, str], keys: tuple[str, ...], files: Files) -> tuple[str, ...]:
        """Those with rows, as `key=value/…` in the order of the keys. UserError or ExternalError for a table out of reach."""


@runtime_checkable
class StagesRows(Protocol):
    """A connector whose writers keep rows in directories of their own until the commit."""

    def staging_directory(self, spec: SinkSpec, job_id: str, writer_id: str) -> str | None:
        """The directory of a writer of a job, whose path ends with `<job_id>-<writer_id>`; None where nothing can be claimed, as
        in a store without locks. UserError for a table that cannot be written."""
