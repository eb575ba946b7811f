"""A job over files whose TaskManagers are killed and stopped, and whose disk is full now and then, writes every row once."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos.chaos_run import ChaosRun
from chaos.hosts_run import HostsRun
from spark_harness.hosts import why_there_are_no_hosts

SECONDS = 60


UNALIGNED = {"execution.checkpointing.unaligned.enabled": "true"}


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("seed", "kills_server", "settings"),
    [
        (1, False, {}),
        pytest.param(2, True, {}, marks=pytest.mark.slow),
        pytest.param(3, False, UNALIGNED, marks=pytest.mark.slow),
    ],
    ids=["task managers", "server", "unaligned"],
)
def test_no_row_is_lost_or_doubled_under_chaos(
    tmp_path: Path, seed: int, kills_server: bool, settings: dict[str, str]
) -> None:
    figures = ChaosRun(tmp_path, seed, SECONDS, kills_server=kills_server, settings=settings).run()
    assert figures.faults.get("killed TaskManager", 0) >= 5, figures
    assert figures.restarts >= 5, figures
    assert figures.checkpoints >= 5, figures
    assert figures.left == ()
    none = dict.fromkeys(figures.lost, 0)
    assert (figures.lost, figures.doubled) == (none, none), "\n".join(figures.lines())


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(why_there_are_no_hosts() != "", reason=why_there_are_no_hosts())
def test_no_row_is_lost_or_doubled_while_hosts_are_killed_stopped_and_cut_off(tmp_path: Path) -> None:
    figures = HostsRun(tmp_path, seed=1, seconds=90).run()
    assert figures.faults.total() >= 4
    assert figures.leaders >= 2
    assert (figures.lost, figures.doubled) == (0, 0), "\n".join(figures.lines())
