"""What a task waits on."""

from __future__ import annotations

import threading
import time

import pytest

from sqlstream.runtime.taskmanager.mailbox import Mailbox


def test_mail_and_channels_are_taken_in_the_order_in_which_they_came() -> None:
    mailbox, seen = Mailbox(), []
    for number in (1, 2):
        mailbox.post(lambda number=number: seen.append(number))  # type: ignore[misc]
        mailbox.announce(f"channel {number}")
    assert mailbox.queue_size == 2
    while (mail := mailbox.take_mail()) is not None:
        mail()
    assert (seen, mailbox.queue_size) == ([1, 2], 0)
    assert [mailbox.take_readable() for _ in range(3)] == ["channel 1", "channel 2", None]


def test_a_task_that_waits_for_room_wakes_for_room_and_mail_and_not_for_input() -> None:
    for wake in (Mailbox.announce_room, lambda m: m.post(lambda: None)):
        mailbox, woke = Mailbox(), threading.Event()

        def wait(mailbox: Mailbox = mailbox, woke: threading.Event = woke) -> None:
            mailbox.wait_for_room(lambda: False, 60)
            woke.set()

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        assert not woke.wait(0.05)
        mailbox.announce("channel")
        assert not woke.wait(0.05)
        wake(mailbox)
        assert woke.wait(60)
        thread.join(60)
    # These wait for nothing: without an end they would hang.
    mailbox.wait_for_room(lambda: False, None)
    Mailbox().wait_for_room(lambda: True, None)


@pytest.mark.parametrize("is_mail", [True, False])
def test_a_task_that_waits_wakes_for_what_comes_and_not_before(is_mail: bool) -> None:
    mailbox, woke = Mailbox(), threading.Event()

    def wait() -> None:
        mailbox.wait(60)
        woke.set()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert not woke.wait(0.05)
    if is_mail:
        mailbox.post(lambda: None)
    else:
        mailbox.announce("channel")
    assert woke.wait(60)
    thread.join(60)
    # What is there already is not waited for: without an end this would hang.
    mailbox.wait(None)


def test_a_wait_ends_with_its_time() -> None:
    started_s = time.monotonic()
    Mailbox().wait(0.02)
    assert time.monotonic() - started_s > 0.01


def test_a_wait_of_centuries_ends_with_mail() -> None:
    mailbox = Mailbox()
    threading.Timer(0.05, lambda: mailbox.post(lambda: None)).start()
    mailbox.wait(2**63 / 1000)
    assert mailbox.queue_size == 1
