"""A job over files whose TaskManagers are killed and stopped, and whose disk is full now and then, writes every row once."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos.chaos_run import ChaosRun
from chaos.hosts_run import HostsRun
from spark_harness.hosts import why_there_are_no_hosts

SECONDS, SHORT_SECONDS = 60, 30
UNALIGNED = {"execution.checkpointing.unaligned.enabled": "true"}


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("seed", "seconds", "kills_server", "settings"),
    [
        pytest.param(1, SHORT_SECONDS, False, {}, id="task managers"),
        *(
            pytest.param(seed, SECONDS, *run, id=name, marks=pytest.mark.slow)
            for seed, name, *run in (
                (1, "long", False, {}),
                (2, "server", True, {}),
                (3, "unaligned", False, UNALIGNED),
            )
        ),
    ],
)
def test_no_row_is_lost_or_doubled_under_chaos(
    tmp_path: Path, seed: int, seconds: int, kills_server: bool, settings: dict[str, str]
) -> None:
    figures = ChaosRun(tmp_path, seed, seconds, kills_server=kills_server, settings=settings).run()
    least = seconds // 12
    assert figures.faults.get("killed TaskManager", 0) >= least, figures
    assert figures.restarts >= least, figures
    assert figures.checkpoints >= least, figures
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
