"""Whatever is lost, late or stands still: of several servers one changes what they share, and no row is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from simulation.simulated_leaders import Faults, World

from sqlstream.client.server.leaders import fenced_records
from sqlstream.client.server.leaders.fenced_records import INDEX, Leader
from sqlstream.client.server.leaders.record_store import Conflict, Program

SEEDS_A_CASE = 50
FOUND_WITHIN = 400


def test_one_leads_and_every_job_ends_with_each_row_once(leader_seeds: int) -> None:
    for seed in range(leader_seeds * SEEDS_A_CASE, (leader_seeds + 1) * SEEDS_A_CASE):
        try:
            World(seed).run()
        except Exception as error:
            raise AssertionError(f"seed {seed}, by pytest tests/simulation --seed {leader_seeds}") from error


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
def test_a_protocol_that_lacks_a_part_is_found(leader: type[Leader]) -> None:
    assert _is_found(lambda seed: World(seed, leader))


@pytest.mark.parametrize(
    "faults", [Faults(confirms=False), Faults(ids_of_leaders=False), Faults(notes_first=False)]
)
def test_a_server_that_lacks_a_part_is_found(faults: Faults) -> None:
    assert _is_found(lambda seed: World(seed, faults=faults))


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
    assert _is_found(World)


def _is_found(world: Callable[[int], World]) -> bool:
    for seed in range(FOUND_WITHIN):
        try:
            world(seed).run()
        except (AssertionError, KeyError):
            return True
    return False
