"""Turns of tasks that wake at the same time."""

from __future__ import annotations

import threading
import time

from sqlstream.runtime.taskmanager.mailbox import TURN_MAX_S, Turns

TIMEOUT_S = 60


def test_a_turn_begins_when_the_one_before_has_ended() -> None:
    turns, inside, most = Turns(TIMEOUT_S), [0], [0]

    def work() -> None:
        for _ in range(50):
            turn = turns.begin()
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0)
            inside[0] -= 1
            turn.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()
    assert most == [1]


def test_a_task_that_works_for_long_is_waited_for_once() -> None:
    turns = Turns()
    long_one = turns.begin()
    before_s = time.monotonic()
    second = turns.begin()
    assert time.monotonic() - before_s >= TURN_MAX_S
    second.release()
    third = turns.begin()
    assert third is second, "nobody waits for the long one again"
    third.release()
    long_one.release()
    assert turns.begin() is second
