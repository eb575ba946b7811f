"""Event time over several channels and inputs."""

from sqlstream.elements import WATERMARK_MAX
from sqlstream.runtime.taskmanager.inputs.network_input import TaskWatermarks


def test_the_watermark_is_the_least_over_all_channels_of_all_inputs():
    marks = TaskWatermarks((2, 1))
    assert marks.on_watermark(0, 0, 10) is None
    assert marks.on_watermark(0, 1, 5) is None
    assert marks.on_watermark(1, 0, 7) == 5
    assert marks.on_watermark(0, 1, 9) == 7
    assert marks.on_watermark(1, 0, 20) == 9


def test_a_watermark_never_goes_back():
    marks = TaskWatermarks((1,))
    assert marks.on_watermark(0, 0, 10) == 10
    assert marks.on_watermark(0, 0, 8) is None
    assert marks.watermark_ms == 10


def test_an_idle_channel_does_not_hold_back_the_others_until_it_returns():
    marks = TaskWatermarks((2,))
    marks.on_watermark(0, 0, 10)
    assert marks.on_status(0, 1, True) == (10, None)
    assert marks.on_watermark(0, 0, 20) == 20
    assert marks.on_status(0, 1, False) == (None, None)
    assert marks.on_watermark(0, 0, 30) is None
    assert marks.on_watermark(0, 1, 25) == 25


def test_the_task_is_idle_when_all_its_inputs_are():
    marks = TaskWatermarks((1, 1))
    assert marks.on_status(0, 0, True) == (None, None)
    assert marks.on_status(1, 0, True) == (None, True)
    assert marks.on_status(0, 0, False) == (None, False)


def test_a_finished_channel_beside_an_idle_one_does_not_complete_event_time():
    marks = TaskWatermarks((2,))
    marks.on_watermark(0, 0, 10)
    marks.on_watermark(0, 1, 10)
    marks.on_status(0, 1, True)
    assert marks.on_watermark(0, 0, WATERMARK_MAX) is None
    assert marks.on_end(0, 0) == (None, True)
    assert marks.on_status(0, 1, False) == (None, False)
    assert marks.on_watermark(0, 1, WATERMARK_MAX) == WATERMARK_MAX


def test_a_finished_channel_counts_with_what_it_had_reached_whether_the_others_turn_idle_before_or_behind_its_end():
    idle_first, end_first = TaskWatermarks((2,)), TaskWatermarks((2,))
    for marks in (idle_first, end_first):
        marks.on_watermark(0, 0, 10)
        marks.on_watermark(0, 1, 10)
    idle_first.on_status(0, 1, True)
    for marks in (idle_first, end_first):
        marks.on_watermark(0, 0, 50)
        marks.on_watermark(0, 0, WATERMARK_MAX)
        marks.on_end(0, 0)
    assert end_first.on_status(0, 1, True) == (50, True)
    assert idle_first.watermark_ms == end_first.watermark_ms == 50


def test_event_time_is_complete_when_every_channel_has_ended():
    marks = TaskWatermarks((2, 1))
    assert marks.on_end(0, 0) == (None, None)
    assert marks.on_end(1, 0) == (None, None)
    assert marks.on_end(0, 1) == (WATERMARK_MAX, None)


def test_a_side_input_holds_nothing_back() -> None:
    marks = TaskWatermarks((1, 2), side_input=1)
    assert marks.on_watermark(0, 0, 5) == 5
    assert marks.on_watermark(1, 0, 9) is None
    assert marks.on_status(1, 1, True) == (None, None)
    assert (marks.watermark_ms, marks.side_watermark_ms) == (5, 9)
    assert marks.on_status(0, 0, True) == (None, True)
    assert marks.on_end(1, 0) == (None, None)
    assert marks.on_end(1, 1) == (None, None)
    assert (marks.watermark_ms, marks.side_watermark_ms) == (5, WATERMARK_MAX)
