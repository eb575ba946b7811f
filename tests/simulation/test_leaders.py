"""Whatever is lost, late or stands still: of several servers one changes what they share, and no row is lost or doubled."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import pytest
from simulation.simulated_leaders import Faults, World

from sqlstream.client.server.leaders import fenced_records
from sqlstream.client.server.leaders.fenced_records import INDEX, Leader
from sqlstream.client.server.leaders.record_store import Conflict, Program

SEEDS_A_CASE = 50
MANY_SESSIONS = 400
"""Sealing so many takes longer than any server's lease."""
FOUND_WITHIN = 400
JOB_LOST, ROWS_WRONG = r"^job\d is lost$", r"^job\d: \["


def test_one_leads_and_every_job_ends_with_each_row_once(leader_seeds: int) -> None:
    for seed in range(leader_seeds * SEEDS_A_CASE, (leader_seeds + 1) * SEEDS_A_CASE):
        try:
            World(seed).run()
        except Exception as error:
            raise AssertionError(f"seed {seed}, by pytest tests/simulation --seed {leader_seeds}") from error


def test_a_server_that_has_much_to_seal_is_not_deposed_meanwhile() -> None:
    for number in range(4):
        World(number, sessions=MANY_SESSIONS).run()


class WithoutRenewal(Leader):
    def _renew_if_due(self) -> Program[None]:
        yield from ()


def test_servers_that_do_not_renew_while_they_seal_depose_each_other() -> None:
    with pytest.raises(AssertionError, match="nobody brings the jobs to their end"):
        World(0, WithoutRenewal, sessions=MANY_SESSIONS).run()


class WithoutSeal(Leader):
    def _sealed(self, key: str) -> Program[tuple[bytes, str] | None]:
        found = yield from fenced_records._read(key)
        if found is None:
            return None
        envelope = msgspec.msgpack.decode(found.data, type=fenced_records._Envelope)
        return bytes(envelope.content), found.version


class WithoutSealedIndex(Leader):
    def _sealed(self, key: str) -> Program[tuple[bytes, str] | None]:
        sealed = WithoutSeal._sealed if key == INDEX else Leader._sealed
        return (yield from sealed(self, key))


class WithKeysOfGroups(Leader):
    """A group that is removed and made again has the same key."""

    def _next_key(self) -> str:
        return "1-group"


class WithSameContents(Leader):
    """Contents come again, and with them their digests."""

    def _put(self, key: str, content: bytes, expected: str | None) -> Program[str]:
        envelope = fenced_records._Envelope(1, "", 1, msgspec.Raw(content))
        return (yield from fenced_records._written(key, msgspec.msgpack.encode(envelope), expected))


@pytest.mark.parametrize("leader", [WithoutSeal, WithoutSealedIndex, WithKeysOfGroups, WithSameContents])
def test_a_protocol_that_lacks_a_part_loses_a_job_or_rows_of_it(leader: type[Leader]) -> None:
    assert _is_found(lambda seed: World(seed, leader), f"{JOB_LOST}|{ROWS_WRONG}")


@pytest.mark.parametrize(
    ("faults", "text"),
    [
        (Faults(confirms=False), f"{JOB_LOST}|{ROWS_WRONG}"),
        (Faults(ids_of_leaders=False), ROWS_WRONG),
        (Faults(notes_first=False), "it does not count"),
    ],
)
def test_a_server_that_lacks_a_part_is_found(faults: Faults, text: str) -> None:
    assert _is_found(lambda seed: World(seed, faults=faults), text)


def test_a_conflict_that_is_taken_for_an_answer_that_was_lost_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = fenced_records._written

    def blind(key: str, data: bytes, expected: str | None, is_large: bool = False) -> Program[str]:
        try:
            return (yield from written(key, data, expected, is_large))
        except Conflict:
            found = yield from fenced_records._read(key, is_large)
            return found.version if found is not None else ""

    monkeypatch.setattr(fenced_records, "_written", blind)
    assert _is_found(World, "two lead in epoch|changed leader too late")


def _is_found(world: Callable[[int], World], text: str) -> bool:
    """Whether a world breaks a promise, and says so in this text: whatever else fails is a fault of the simulation."""
    for seed in range(FOUND_WITHIN):
        try:
            world(seed).run()
        except AssertionError as error:
            if re.search(text, str(error)):
                return True
    return False
