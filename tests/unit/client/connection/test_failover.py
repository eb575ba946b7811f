"""Which server a request goes to next: decisions alone, on a clock of the test's own."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.client.connection.failover import (
    PAUSE_MAX_S,
    RETRY_S,
    Failed,
    Failover,
    GiveUp,
    Servers,
    Try,
)

A, B, C = "http://a:1", "http://b:1", "http://c:1"


def attempts_of(*urls: str, is_repeatable: bool = True, has_answered: bool = True) -> Failover:
    servers = Servers(urls)
    if has_answered:
        servers.answered(urls[0])
    return Failover(servers, is_repeatable)


def test_servers_are_asked_in_their_order_beginning_with_the_last_to_answer() -> None:
    servers = Servers((A, B, C))
    servers.answered(B)
    attempts = Failover(servers, False)
    assert attempts.url == B
    assert [attempts.failed(Failed.UNREACHED, 0.0) for _ in range(2)] == [Try(C), Try(A)]
    following = attempts.failed(Failed.UNREACHED, 0.0)
    assert isinstance(following, Try)
    assert (following.url, following.pause_s > 0) == (B, True)


def test_the_server_that_one_names_as_the_leader_is_asked_next() -> None:
    attempts = attempts_of(A, B, C)
    assert attempts.failed(Failed.NOT_LEADING, 0.0, C) == Try(C)
    assert attempts.failed(Failed.UNREACHED, 0.0) == Try(B)


def test_one_server_alone_is_not_asked_again_unless_it_waits_for_another() -> None:
    assert attempts_of(A).failed(Failed.UNREACHED, 0.0) == GiveUp(is_unknown=False)
    assert attempts_of(A).failed(Failed.LOST, 0.0) == GiveUp(is_unknown=True)
    waiting = attempts_of(A)
    assert waiting.failed(Failed.NOT_LEADING, 0.0, B) == Try(B)
    assert waiting.failed(Failed.UNREACHED, 0.0) == Try(A, 0.05)


def test_a_client_that_was_never_answered_asks_each_server_once() -> None:
    attempts = attempts_of(A, B, has_answered=False)
    assert attempts.failed(Failed.UNREACHED, 0.0) == Try(B)
    assert attempts.failed(Failed.UNREACHED, 0.0) == GiveUp(is_unknown=False)
    attempts = attempts_of(A, B, has_answered=False)
    attempts.failed(Failed.UNREACHED, 0.0)
    # One waits: another has led, or will.
    assert isinstance(attempts.failed(Failed.NOT_LEADING, 0.0), Try)


def test_what_must_not_be_repeated_is_not_sent_again_once_it_may_have_arrived() -> None:
    attempts = attempts_of(A, B, is_repeatable=False)
    assert attempts.failed(Failed.UNREACHED, 0.0) == Try(B)
    assert attempts.failed(Failed.LOST, 0.0) == GiveUp(is_unknown=True)


@pytest.mark.parametrize(
    ("named", "by", "expected"),
    [
        (B, A, B),
        ("http://d:1", A, "http://d:1"),
        ("https://d:1", A, ""),
        ("http://localhost:8083", A, ""),
        ("http://127.0.0.1:9", "http://localhost:8", "http://127.0.0.1:9"),
        ("", A, ""),
    ],
)
def test_the_token_goes_to_no_server_that_is_named_by_another_scheme_or_by_a_name_of_its_own_machine(
    named: str, by: str, expected: str
) -> None:
    assert Servers((A, B)).leader(named, by) == expected


@given(
    st.lists(st.sampled_from([A, B, C]), min_size=1, max_size=3, unique=True),
    st.lists(
        st.tuples(st.sampled_from(Failed), st.sampled_from(["", A, B, C, "http://d:1", "http://e:1"])),
        min_size=300,
        max_size=300,
    ),
    st.booleans(),
    st.booleans(),
)
def test_any_run_of_failures_ends_in_time_and_asks_nobody_without_a_pause_for_ever(
    urls: list[str], failures: list[tuple[Failed, str]], is_repeatable: bool, has_answered: bool
) -> None:
    attempts = attempts_of(*urls, is_repeatable=is_repeatable, has_answered=has_answered)
    now_s, without_pause = 0.0, 0
    was_lost = False
    for how, leader in itertools.cycle(failures):
        was_lost |= how is Failed.LOST
        step = attempts.failed(how, now_s, leader)
        if isinstance(step, GiveUp):
            assert step.is_unknown == was_lost
            break
        assert not was_lost or is_repeatable
        assert 0 <= step.pause_s <= PAUSE_MAX_S
        without_pause = 0 if step.pause_s else without_pause + 1
        # All that are known, once each: those of the list and the two that others name.
        assert without_pause <= 5
        now_s += step.pause_s
    assert now_s <= RETRY_S + PAUSE_MAX_S
