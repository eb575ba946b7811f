"""`make simulate SEEDS=… FROM=…`: run many seeds of simulated clusters; the first that fails tells its story. With `--count` all
run, and each that fails says why in a line: so it is measured how many seeds find a fault that was put in."""

from __future__ import annotations

import argparse
import contextlib
import logging
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from simulation.reliable_cluster import FAULTS, ReliableCluster  # noqa: E402 (found by the line above)
from simulation.simulated_server import simulated_surroundings  # noqa: E402

SEEDS_A_TASK = 20
PROGRESS_S = 5.0

_OPEN = contextlib.ExitStack()


def main() -> int:
    """0 when all seeds hold, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one, and tell its story")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--count", action="store_true", help="go on behind a seed that fails")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        prepare()
        story, error = run(arguments.seed)
        print("\n".join(story))
        print(f"seed {arguments.seed}: {error or 'holds'}")
        return 1 if error else 0
    return run_many(arguments.first, arguments.seeds, arguments.jobs, arguments.count)


def run_many(first: int, seeds: int, jobs: int, counts: bool) -> int:
    began_s = told_s = time.monotonic()
    done, failed, faults = 0, 0, Counter[str]()
    starts = range(first, first + seeds, SEEDS_A_TASK)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, prepare) as pool:
        tasks = [pool.submit(run_some, n, min(SEEDS_A_TASK, first + seeds - n), counts) for n in starts]
        for task in tasks:
            seen, failures = task.result()
            failed += len(failures)
            for seed, story, error in failures:
                if counts:
                    print(f"seed {seed}: {error.splitlines()[0]}", flush=True)
                    continue
                pool.shutdown(wait=True, cancel_futures=True)
                print("\n".join(story))
                print(f"seed {seed}: {error}\ntell it again: tests/simulation/main.py --seed {seed}")
                return 1
            done += SEEDS_A_TASK
            faults.update(seen)
            if time.monotonic() - told_s > PROGRESS_S:
                told_s = time.monotonic()
                print(f"{min(done, seeds)} of {seeds} seeds hold", flush=True)
    hold = f"but {failed} hold" if failed else "hold"
    print(
        f"seeds {first} to {first + seeds - 1} {hold}, in {time.monotonic() - began_s:.0f} s; seeds that met"
    )
    print("\n".join(f"{number:>8} {fault}" for fault, number in sorted(faults.items())))
    return 1 if failed else 0


def prepare() -> None:
    """For all runs of a process."""
    logging.disable()
    _OPEN.enter_context(simulated_surroundings())


Failure = tuple[int, list[str], str]
"""A seed, its story and the error."""


def run_some(first: int, number: int, counts: bool) -> tuple[Counter[str], list[Failure]]:
    """What the stories tell of faults; the seeds that fail, or the first of them."""
    faults, failures = Counter[str](), list[Failure]()
    for seed in range(first, first + number):
        story, error = run(seed)
        if error:
            failures.append((seed, [] if counts else story, error))
            if not counts:
                break
        faults.update(fault for fault in FAULTS if any(fault in line for line in story))
    return faults, failures


def run(seed: int) -> tuple[list[str], str]:
    """The story of a seed, and why it fails."""
    with ReliableCluster(seed) as cluster:
        try:
            cluster.run_to_rest()
        except pytest.fail.Exception as error:
            return cluster.told(), str(error)
        except Exception as error:  # whatever a machine raises is what the seed has found
            return cluster.told(), f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    return cluster.story, ""


if __name__ == "__main__":
    sys.exit(main())
