"""Long statements of one user take turns; those of others, and short ones, do not wait for them."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import pytest
from gateway_harness import failure, gateway_service, run

from sqlstream.client.gateway import execution
from sqlstream.client.gateway.execution import Planning, PlanningTurns
from sqlstream.client.gateway.options import GatewayOptions

LONG = "SELECT 1 AS n WHERE 1 IN (" + ", ".join(str(n) for n in range(20_000)) + ")"


@pytest.fixture(autouse=True)
def every_statement_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "SHORT_S", -1.0)
    monkeypatch.setattr(execution, "CHECKS_PER_LOOK", 1)


def begun(turns: PlanningTurns, user: str, given_up: threading.Event | None = None) -> Planning:
    """A statement that is planned on this thread, once it has its turn."""
    planning = Planning(turns, user, given_up or threading.Event())
    planning.look()
    return planning


def test_one_long_statement_of_a_user_is_planned_at_a_time() -> None:
    turns = PlanningTurns(1, 60)
    first = begun(turns, "a")
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(begun, turns, "a")
        other = begun(turns, "b")
        assert not waiting.done()
        # Its job begins: the rest of it is not planning.
        first.on_planned()
        second = waiting.result(60)
        again = pool.submit(begun, turns, "a")
        second.release()
        again.result(60).release()
    other.release()


def test_one_that_is_given_up_waits_no_longer() -> None:
    turns, given_up = PlanningTurns(1, 60), threading.Event()
    first = begun(turns, "a")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(begun, turns, "a", given_up)
        given_up.set()
        assert waiting.result(60).is_set()
    first.release()
    begun(turns, "a").release()


def test_so_many_of_a_user_wait() -> None:
    turns, given_up = PlanningTurns(1, 60, waiting_max=1), threading.Event()
    first = begun(turns, "a")
    with ThreadPoolExecutor(2) as pool:
        done, waiting = wait(
            [pool.submit(begun, turns, "a", given_up) for _ in range(2)], 60, FIRST_COMPLETED
        )
        assert [getattr(each.exception(), "code", "") for each in done] == ["SS6042"]
        assert len(waiting) == 1
        given_up.set()
    first.release()


def test_a_statement_that_takes_too_long_to_plan_ends() -> None:
    with gateway_service(GatewayOptions(planning_cpu_max_ms=1)) as (service, _):
        session = service.open_session({})
        assert failure(run(service, session, LONG)).code == "SS6041"
