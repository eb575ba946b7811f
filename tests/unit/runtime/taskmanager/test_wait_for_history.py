"""A table waits for its history, and then for nobody any more."""

from __future__ import annotations

import msgspec

from sqlstream.elements import WATERMARK_MIN
from sqlstream.runtime.taskmanager.events import WatermarkReported
from sqlstream.runtime.taskmanager.inputs.source_alignment import WaitForHistory
from sqlstream.schema import Schema
from sqlstream.specs import BackfillSpec, SourceSpec
from sqlstream.specs.backfill import HISTORIES_MAX, turn_of, waiting_alignment


def test_a_table_reads_once_its_history_has_ended_whatever_it_is_told_later() -> None:
    reported: list[WatermarkReported] = []
    alignment = waiting_alignment(BackfillSpec("live", "g", "SELECT 1", ()))
    assert alignment is not None
    clock_ms = 0
    place = (WATERMARK_MIN + 1, False)
    waiting = WaitForHistory("e", alignment, object(), lambda: place, reported.append, lambda: clock_ms)  # type: ignore[arg-type]
    assert not waiting.may_read()
    assert [report.watermark_ms for report in reported] == [WATERMARK_MIN + 1]
    waiting.on_allowed(WATERMARK_MIN)
    assert not waiting.may_read()
    waiting.on_allowed(WATERMARK_MIN + 1)
    assert waiting.may_read()
    # Another reader of the table that begins anew holds its group, and not this one.
    waiting.on_allowed(WATERMARK_MIN)
    clock_ms = 10 * alignment.update_interval_ms
    assert waiting.may_read()
    assert len(reported) == 1
    assert waiting.due_s() > 0


def test_a_history_of_a_turn_waits_for_those_of_lower_turns_and_a_table_for_all() -> None:
    alignment = waiting_alignment(BackfillSpec("live", "g", "SELECT 1", ()))
    assert alignment is not None
    history = SourceSpec("t", "c", {}, Schema(()), (), waits_for="g", turn=2)
    places = [turn_of(spec) for spec in (BackfillSpec("live", "g", "SELECT 1", ()), history)]
    places.append(turn_of(msgspec.structs.replace(history, turn=-1)))
    assert places == [0, 2, HISTORIES_MAX]
    place = (WATERMARK_MIN + 2, False)
    waiting = WaitForHistory("e", alignment, object(), lambda: place, lambda report: None, lambda: 0)  # type: ignore[arg-type]
    waiting.on_allowed(WATERMARK_MIN + 1)
    assert not waiting.may_read()
    waiting.on_allowed(WATERMARK_MIN + 2)
    assert waiting.may_read()


def test_only_a_table_with_a_history_waits() -> None:
    plain = SourceSpec("t", "c", {}, Schema(()), ())
    assert waiting_alignment(plain) is None
    held = SourceSpec("t", "c", {}, Schema(()), (), waits_for="g")
    assert waiting_alignment(held) == waiting_alignment(BackfillSpec("live", "g", "SELECT 1", ()))
