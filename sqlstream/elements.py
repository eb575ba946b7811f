"""The elements that flow between tasks besides batches (Flink: StreamElement and RuntimeEvent).

A stream is a sequence of `pyarrow.RecordBatch` and of these. Watermarks, barriers and end-of-input never overtake batches.
"""

from __future__ import annotations

import msgspec

from sqlstream.bounds import COUNT_MAX, Count, Int64

WATERMARK_MIN = -(2**63)
"""The watermark before the first one: event time is unknown."""

HAND_OVER = WATERMARK_MIN + 1
"""The watermark behind the histories of a statement (specs.backfill): a table gives it when it begins. It says nothing of event
time, and comes to operators by `on_hand_over`."""

WATERMARK_MAX = 2**63 - 1
"""Event time is complete: all timers fire, all windows close. Sent before EndOfInput of a bounded source."""


class Watermark(msgspec.Struct, frozen=True, tag_field="element", tag="watermark"):
    """No row with an event time <= `timestamp_ms` follows on this channel, but late ones. Milliseconds since the epoch."""

    timestamp_ms: Int64


class WatermarkStatus(msgspec.Struct, frozen=True, tag_field="element", tag="status"):
    """Idle channels do not hold back the minimum."""

    is_idle: bool


class CheckpointBarrier(msgspec.Struct, frozen=True, tag_field="element", tag="barrier"):
    """Rows before it belong to checkpoint `checkpoint_id`, rows after it do not. `directory` is that of a savepoint. `is_drain`:
    event time has ended, and all that waits for it is emitted before the barrier. `completed_id` is the last checkpoint that was
    completed when this one began; 0 if none was, or it is not known. `is_last`: nothing is read behind it until it is
    aborted. From `overtakes_at_ms` on, by the wall clock, one that still waits behind rows passes them, and is unaligned; 0: it
    never does."""

    checkpoint_id: Count
    timestamp_ms: Int64
    is_unaligned: bool = False
    directory: str = ""
    is_drain: bool = False
    completed_id: Count = 0
    is_last: bool = False
    overtakes_at_ms: Int64 = 0


class LatencyMarker(msgspec.Struct, frozen=True, tag_field="element", tag="latency"):
    """Sent by a source at `marked_ms` of its clock, to one consumer of each that it has, and passed on by every operator at once:
    it waits where rows wait between tasks, and is no part of any checkpoint."""

    marked_ms: Int64
    operator: Count
    subtask: Count


class EndOfInput(msgspec.Struct, frozen=True, tag_field="element", tag="end"):
    """The channel is finished; nothing follows."""


class RoundEnd(msgspec.Struct, frozen=True, tag_field="element", tag="round"):
    """Ends what a subtask of a recursive query sends a peer in one exchange: `next_round` is the first round for which it has or
    has sent rows, -1 if there is none. `watermark_ms` and `is_idle` are those of its inputs. `stands_at` is the checkpoint whose
    barrier it has, 0 if it has none; END_OF_ROUNDS when its inputs have ended. `decided_id` and those before it, but for
    `pending_ids`, are checkpoints that it does not wait for."""

    next_round: Int64
    watermark_ms: Int64
    is_idle: bool
    stands_at: Count
    decided_id: Count
    pending_ids: tuple[Count, ...]


END_OF_ROUNDS = COUNT_MAX
"""Greater than the id of any checkpoint."""

KeptElement = Watermark | WatermarkStatus | CheckpointBarrier | EndOfInput
"""What a checkpoint may store of what was under way."""

Element = KeptElement | LatencyMarker | RoundEnd
