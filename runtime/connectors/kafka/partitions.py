"""Finds the partitions of topics, and where reading them begins and ends."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from sqlstream.errors import Retry, UserError, did_you_mean
from sqlstream.runtime.connectors.kafka.errors import OUT_OF_RANGE, UNREACHABLE, error_of, unreachable
from sqlstream.runtime.connectors.kafka.options import KafkaOptions
from sqlstream.spi.connector import Discovery, SourceSplit

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.admin import AdminClient

_TIMEOUT_S = 10.0


EARLIEST = -2
"""Where a partition begins that was found by a later look (OFFSET_BEGINNING)."""

_INTERNAL = re.compile(r"__(consumer_offsets|transaction_state|share_group_state)")


class Partitions:
    """Splits are partitions: {"topic", "partition", "offset"}, and with a bounded table "end", the offset that is not read.

    Those that are there at the first look begin where the options say, and end where these say as of that moment. Those that come
    later are read from their begin. State: the partitions that were found, by topic, and of a bounded table with a group the
    offset at which each ends.
    """

    def __init__(self, options: KafkaOptions, state: dict[str, Any] | None) -> None:
        self._options = options
        self._found: dict[str, int] = dict(state["found"]) if state is not None else {}
        self._ends: list[dict[str, Any]] = state.get("ends", []) if state is not None else []
        self._is_first = state is None
        self.interval_ms = options.given.discovery_interval_ms
        self._is_last = options.is_bounded or not self.interval_ms

    def discover(self) -> Discovery:
        from confluent_kafka import TopicPartition

        if not self._is_first and self._is_last:
            return Discovery((), is_last=True)
        # A job that begins says soon that it has no broker; one that runs waits for it.
        retry = Retry.NEVER if self._is_first else None
        with (
            _asking(self._options.settings, self._options.place, retry),
            closing(Brokers(self._options)) as brokers,
        ):
            counts = self._topics(brokers)
            new = [
                TopicPartition(topic, number)
                for topic, count in sorted(counts.items())
                for number in range(self._found.get(topic, 0), count)
            ]
            splits = self._splits(brokers, new)
        # Another dict: a checkpoint may have the last snapshot, without the splits of this look.
        self._found = self._found | counts
        self._is_first = False
        return Discovery(tuple(splits), is_last=self._is_last)

    def _topics(self, brokers: Brokers) -> dict[str, int]:
        """The partitions of each topic. UserError SS5302 for one that does not exist."""
        there = brokers.topics()
        if self._options.given.topic_pattern is not None:
            pattern = re.compile(self._options.given.topic_pattern)
            names = [n for n in there if pattern.fullmatch(n) and not _INTERNAL.fullmatch(n)]
            if not names and self._is_first and self._is_last:
                raise UserError(
                    "SS5302",
                    f'no topic matches the pattern "{pattern.pattern}"',
                    hint="correct the option 'topic-pattern'",
                )
            return {name: there[name] for name in names}
        for name in self._options.topics:
            if name not in there:
                raise UserError(
                    "SS5302",
                    f'topic "{name}" does not exist',
                    hint=did_you_mean(name, list(there)) or "create it, or correct the option 'topic'",
                )
        return {name: there[name] for name in self._options.topics}

    def _splits(self, brokers: Brokers, new: list[TopicPartition]) -> Iterable[SourceSplit]:
        given, options = self._options.given, self._options
        if not new:
            return []
        if not self._is_first:
            return [_split(p, EARLIEST) for p in new]
        begins = brokers.offsets(new, given.startup_mode, options.offsets, given.startup_ms)
        if not options.is_bounded:
            return [_split(p, begin) for p, begin in zip(new, begins, strict=True)]
        ends = brokers.offsets(new, given.bounded_mode, options.ends, given.bounded_ms, is_end=True)
        found = list(zip(new, begins, ends, strict=True))
        if given.group_id is not None:
            self._ends = [
                _split(p, end).position
                for p, begin, end in found
                if begin <= end and (not options.ends or p.partition in options.ends)
            ]
        return [_split(p, begin, end) for p, begin, end in found if begin < end]

    def give_back(self, positions: list[dict[str, Any]]) -> None:
        """Readers never return a partition."""

    def snapshot(self) -> dict[str, Any]:
        return {"found": self._found} | ({"ends": self._ends} if self._ends else {})


def _split(partition: TopicPartition, begin: int, end: int | None = None) -> SourceSplit:
    position = {"topic": partition.topic, "partition": partition.partition, "offset": begin}
    return SourceSplit(position if end is None else {**position, "end": end})


_RESETS = {
    **dict.fromkeys(("smallest", "earliest", "beginning"), "earliest"),
    **dict.fromkeys(("largest", "latest", "end"), "latest"),
}
"""The values of auto.offset.reset."""


class Brokers:
    """Answers about topics and offsets. No state but the connections, which are made when they are needed."""

    def __init__(self, options: KafkaOptions) -> None:
        settings = dict(options.settings)
        self._resets = _RESETS.get(settings.pop("auto.offset.reset", "").lower(), "error")
        self._is_read_committed = settings.get("isolation.level", "read_committed") == "read_committed"
        self._options = options
        self._settings = settings
        self._closing = contextlib.ExitStack()

    def close(self) -> None:
        self._closing.close()

    @functools.cached_property
    def _consumer(self) -> Consumer:
        from confluent_kafka import Consumer

        settings = {"group.id": "sqlstream", **self._settings, "enable.auto.commit": "false"}
        consumer = Consumer(settings, logger=SILENT)
        self._closing.callback(consumer.close)
        return consumer

    @functools.cached_property
    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        settings = {k: v for k, v in self._settings.items() if k not in ("group.id", "isolation.level")}
        return AdminClient(settings, logger=SILENT)

    def topics(self) -> dict[str, int]:
        """The partitions of each topic that the user may see."""
        metadata = self._consumer.list_topics(timeout=_TIMEOUT_S)
        for name in self._options.topics:
            error = metadata.topics[name].error if name in metadata.topics else None
            if error is not None:
                raise error_of(error.code(), error.str(), name)
        return {name: len(topic.partitions) for name, topic in metadata.topics.items() if topic.partitions}

    def offsets(
        self,
        partitions: Sequence[TopicPartition],
        mode: str,
        specific: dict[int, int],
        time_ms: int | None,
        *,
        is_end: bool = False,
    ) -> list[int]:
        """Of each partition that at which a mode begins or ends."""
        match mode:
            case "earliest-offset":
                return self._listed(partitions, "earliest")
            case "latest-offset":
                return self._listed(partitions, "latest")
            case "specific-offsets":
                # A partition that is not named begins where its group is, or at its begin; it does not end with a named one.
                given = [specific.get(p.partition, 0 if is_end else None) for p in partitions]
                rest = self._committed(partitions, "earliest") if None in given else []
                return [rest[i] if g is None else g for i, g in enumerate(given)]
            case "timestamp":
                latest = self._listed(partitions, "latest")
                found = self._at_time(partitions, int(time_ms or 0))
                return [end if f < 0 else f for f, end in zip(found, latest, strict=True)]
        return self._committed(partitions, "latest" if is_end else self._resets)

    def _listed(self, partitions: Sequence[TopicPartition], which: str) -> list[int]:
        from confluent_kafka import IsolationLevel
        from confluent_kafka.admin import OffsetSpec

        level = IsolationLevel.READ_COMMITTED if self._is_read_committed else IsolationLevel.READ_UNCOMMITTED
        spec: Callable[[], Any] = getattr(OffsetSpec, which)
        answers = self._admin.list_offsets(
            {partition: spec() for partition in partitions}, isolation_level=level, request_timeout=_TIMEOUT_S
        )
        return [answers[p].result(_TIMEOUT_S).offset for p in partitions]

    def commit(self, positions: Sequence[dict[str, Any]]) -> None:
        """Tell the group where it is."""
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        group = self._options.given.group_id
        listed = [TopicPartition(p["topic"], p["partition"], p["offset"]) for p in positions]
        told = ConsumerGroupTopicPartitions(group, listed)
        answers = self._admin.alter_consumer_group_offsets([told], request_timeout=_TIMEOUT_S)
        _known(answers[group].result(_TIMEOUT_S).topic_partitions)

    def _at_time(self, partitions: Sequence[TopicPartition], time_ms: int) -> list[int]:
        """Of the first message that is not older; −1 where there is none."""
        from confluent_kafka import TopicPartition

        asked = [TopicPartition(p.topic, p.partition, time_ms) for p in partitions]
        found = _known(self._consumer.offsets_for_times(asked, timeout=_TIMEOUT_S))
        return [found[p.topic, p.partition] for p in partitions]

    def _committed(self, partitions: Sequence[TopicPartition], otherwise: str) -> list[int]:
        """Where the group is; elsewhere as auto.offset.reset says. UserError SS5307 when that is an error."""
        asked = self._consumer.committed(list(partitions), timeout=_TIMEOUT_S)
        found = _known(asked)
        offsets = [found[p.topic, p.partition] for p in partitions]
        absent = [p for p, offset in zip(partitions, offsets, strict=True) if offset < 0]
        if not absent:
            return offsets
        if otherwise not in ("earliest", "latest"):
            group = self._options.given.group_id
            raise UserError(
                "SS5307",
                f'group "{group}" has committed no offset of partition {absent[0].partition} of topic "{absent[0].topic}"',
                hint="set 'properties.auto.offset.reset' to 'earliest' or 'latest', or another 'scan.startup.mode'",
            )
        rest = dict(
            zip(((p.topic, p.partition) for p in absent), self._listed(absent, otherwise), strict=True)
        )
        return [rest[p.topic, p.partition] if o < 0 else o for p, o in zip(partitions, offsets, strict=True)]


@contextlib.contextmanager
def _asking(settings: Mapping[str, str], place: str, retry: Retry | None = None) -> Iterator[None]:
    """Raise errors of the library as ours: SqlStreamError as of `error_of`."""
    from confluent_kafka import KafkaException

    try:
        yield
    except TimeoutError as error:
        raise unreachable(settings, "it did not answer in time", retry) from error
    except KafkaException as error:
        cause = error.args[0]
        if cause.code() not in UNREACHABLE:
            raise error_of(cause.code(), cause.str(), place) from error
        raise unreachable(settings, cause.str(), retry) from error


def _known(partitions: Iterable[TopicPartition]) -> dict[tuple[str, int], int]:
    """The offsets of partitions. KafkaException for one that is not known."""
    from confluent_kafka import KafkaException

    found = {}
    for partition in partitions:
        if partition.error is not None:
            raise KafkaException(partition.error)
        found[partition.topic, partition.partition] = partition.offset
    return found


def offsets_in_place_of(options: KafkaOptions, gone: Sequence[tuple[str, int, int]]) -> list[int]:
    """Where reading goes on of each (topic, partition, offset) that is not there any more. UserError SS5304 unless the table
    says that."""
    from confluent_kafka import TopicPartition

    reset = _RESETS.get(options.settings.get("auto.offset.reset", "").lower())
    if reset is None:
        topic, number, offset = gone[0]
        raise error_of(OUT_OF_RANGE[0], f"it was to be read from offset {offset}", topic, number)
    partitions = [TopicPartition(topic, number) for topic, number, _ in gone]
    with _asking(options.settings, options.place), closing(Brokers(options)) as brokers:
        return brokers.offsets(partitions, f"{reset}-offset", {}, None)


def tell_group(options: KafkaOptions, state: dict[str, Any]) -> None:
    """That a table is read to its end, which `Partitions` has noted."""
    if ends := state.get("ends"):
        with _asking(options.settings, options.place), closing(Brokers(options)) as brokers:
            brokers.commit(ends)


def committed_offset(settings: dict[str, str], group: str, topic: str) -> int:
    """What a group has committed of partition 0 of a topic; below 0 for nothing."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({**settings, "group.id": group, "enable.auto.commit": "false"}, logger=SILENT)
    try:
        with _asking(settings, topic):
            return _known(consumer.committed([TopicPartition(topic, 0)], timeout=_TIMEOUT_S))[topic, 0]
    finally:
        consumer.close()


class _Silent:
    """Takes the library's log, whose errors come as exceptions too."""

    def log(self, *arguments: Any, **keywords: Any) -> None: ...


SILENT = _Silent()
