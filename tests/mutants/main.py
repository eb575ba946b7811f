"""`make mutants SEED=… COUNT=…`: put faults into a copy of the code one at a time, and see whether a test fails.

Own code, because the libraries for this (mutmut, cosmic-ray) change the working tree or replace functions at run time, which
kernels do not survive, fork, and know neither a sample by seed nor kernels that are cached by file.

A fault is found when a test fails, does not end, or takes all memory. Each is tried a second time, and such an end without the
fault too, so that what a busy machine does counts for nothing.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import difflib
import hashlib
import json
import queue
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import psutil
from faults import Fault, faults_of, product_files
from private_copy import PrivateCopy
from selection import COMMANDS, STAGES, Selection, digest_of, is_test, read_calls

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "mutants"
FOUND_SHARE_MIN = 0.95
MEMORY_BYTES_MAX = 4 << 30
TEST_TIMEOUT_S = 150
START_S = 300
SLOWER = 4
Key = tuple[str, str, str, str]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """`finder` is the test that failed, or what else gave the fault away; empty when nothing did."""

    fault: Fault
    finder: str
    seconds: float


def main() -> int:
    arguments = _arguments()
    copies = [PrivateCopy(ROOT, BUILD / ("tree" if i == 0 else f"tree{i}")) for i in range(arguments.jobs)]
    for copy in copies:
        copy.warm()
    calls = _recorded_calls(copies[0], arguments.workers, has_commands=not arguments.without_commands)
    selection = Selection(
        ROOT,
        copies[0].files,
        calls,
        has_commands=not arguments.without_commands,
        seconds_max=arguments.seconds_max,
    )
    faults = _sample(copies[0], arguments.seed, arguments.count, arguments.only)
    return _print_summary(arguments.seed, copies[0], _try_out_all(copies, selection, faults))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2, help="processes that record calls")
    parser.add_argument(
        "--jobs", type=int, default=1, help="faults tried side by side, each in a copy of its own"
    )
    parser.add_argument(
        "--without-commands",
        action="store_true",
        help="leave out the tests that start processes: fewer faults are found, in a tenth of the time",
    )
    parser.add_argument(
        "--seconds-max",
        type=float,
        default=300.0,
        help="of tests for one fault, in their process and then of those that start others: a fault that the nearest ones let"
        " through counts as unseen",
    )
    parser.add_argument("--only", default="", help="sample only files whose path starts so")
    return parser.parse_args()


# --- what to try


def _sample(copy: PrivateCopy, seed: int, count: int, only: str) -> list[Fault]:
    equivalent = _equivalent(copy.path)
    paths = [path for path in product_files(copy.files) if path.startswith(only)]
    found = [
        pair for path in paths for pair in _faults_with_keys(copy.path, path) if pair[1] not in equivalent
    ]
    found.sort(key=lambda pair: _place_in_sample(seed, pair[1]))
    return [fault for fault, _ in found[:count]]


def _place_in_sample(seed: int, key: Key) -> bytes:
    """By the fault alone, so that a sample stays what it is while other code changes."""
    return hashlib.sha256(json.dumps([seed, *key]).encode()).digest()


def stale_entries(root: Path) -> list[Key]:
    """Entries of equivalent.json that name no fault any more."""
    equivalent = _equivalent(root)
    paths = sorted({path for path, *_ in equivalent})
    known = {key for path in paths if (root / path).exists() for _, key in _faults_with_keys(root, path)}
    return sorted(equivalent - known)


def _faults_with_keys(root: Path, path: str) -> list[tuple[Fault, Key]]:
    source = (root / path).read_bytes()
    return [(fault, _key(fault, source)) for fault in faults_of(path, source)]


def _key(fault: Fault, source: bytes) -> Key:
    """What names a fault when lines above it move: its file, its function, and the line before and after."""
    before, after = _changed_lines(fault, source)
    return fault.path, fault.function, before.strip(), after.strip()


def _changed_lines(fault: Fault, source: bytes) -> tuple[str, str]:
    first = source.rfind(b"\n", 0, fault.start) + 1
    last = source.find(b"\n", fault.end)
    last = len(source) if last < 0 else last
    changed = source[first : fault.start] + fault.replacement.encode() + source[fault.end : last]
    return source[first:last].decode(), changed.decode()


def _equivalent(root: Path) -> set[Key]:
    """Faults that change nothing that can be seen: looked at once and kept with the reason."""
    entries = json.loads((root / "tests/mutants/equivalent.json").read_text())
    return {(e["path"], e["function"], e["before"], e["after"]) for e in entries}


def _recorded_calls(copy: PrivateCopy, workers: int, *, has_commands: bool) -> dict[str, dict[str, object]]:
    """Which functions each test file calls; recorded for those that changed since, which is also the proof that they pass.
    Being watched makes processes slow: a file of tests that start some and fail by that is left without a record."""
    place = BUILD / "calls.json"
    directories = (*STAGES, COMMANDS) if has_commands else STAGES
    tests = [name for name in copy.files if is_test(name, directories)]
    known = {name: c for name, c in read_calls(place).items() if name in copy.files}

    missing = [name for name in tests if known.get(name, {}).get("digest") != digest_of(copy.path, name)]
    if missing:
        print(f"recording what {len(missing)} test files call", flush=True)
        with tempfile.TemporaryDirectory() as directory:
            environment = {**copy.environment(), "MUTANTS_CALLS": directory}
            command = [*_pytest(), "-p", "calls", "-n", str(workers), "--dist", "loadfile", *missing]
            done = subprocess.run(command, cwd=copy.path, env=environment, check=False)
            failed = sorted(f.stem.replace("~", "/") for f in Path(directory).glob("*.failed"))
            for name in missing:
                found = Path(directory) / f"{name.replace('/', '~')}.json"
                # Of a file that has slow tests alone, none has run.
                record = json.loads(found.read_text()) if found.exists() else {"seconds": 0.0, "called": []}
                if name not in failed and done.returncode in (0, 1):
                    known[name] = {**record, "digest": digest_of(copy.path, name)}
        place.write_text(json.dumps(known))
        if done.returncode not in (0, 1) or any(is_test(name) for name in failed):
            raise SystemExit(f"tests fail without a fault, mend these first: {' '.join(failed)}")
    return known


# --- one fault


def _pytest() -> list[str]:
    plugins = ("-p", "no:cacheprovider", "-p", "first_failure")
    return [sys.executable, "-m", "pytest", "-m", "not slow", *plugins, "--tb=no"]


def _try_out_all(copies: list[PrivateCopy], selection: Selection, faults: list[Fault]) -> list[Outcome]:
    """Outcomes in the order in which they came."""
    free: queue.SimpleQueue[PrivateCopy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def try_out(fault: Fault) -> Outcome:
        copy = free.get()
        try:
            return _try_out(copy, selection, fault)
        finally:
            free.put(copy)

    outcomes = []
    with ThreadPoolExecutor(len(copies)) as pool:
        for number, done in enumerate(as_completed([pool.submit(try_out, fault) for fault in faults]), 1):
            outcomes.append(done.result())
            _print_outcome(f"{number}/{len(faults)}", outcomes[-1])
    return outcomes


def _try_out(copy: PrivateCopy, selection: Selection, fault: Fault) -> Outcome:
    started_s = time.monotonic()
    ast.parse(fault.apply((copy.path / fault.path).read_bytes()))
    tests = selection.tests_for(fault)
    with copy.fault(fault):
        timeout_s = START_S + SLOWER * selection.seconds(tests)
        # Without a name pytest would run everything.
        finder = _run_until_one_fails(copy, tests, timeout_s) if tests else ""
    if finder and "::" not in finder and _run(copy, tests, timeout_s) == finder:
        # They end so without the fault too: that is the machine's doing.
        finder = ""
    return Outcome(fault, finder, time.monotonic() - started_s)


def _run_until_one_fails(copy: PrivateCopy, tests: list[str], timeout_s: float) -> str:
    passed_over: list[str] = []
    while True:
        deselected = [f"--deselect={test}" for test in passed_over]
        finder = _run(copy, [*deselected, *tests], timeout_s)
        if "::" not in finder:
            # A signal, a time that has passed or a full memory may come from the machine: it must come again.
            return finder and _run(copy, [*deselected, *tests], timeout_s)
        if again := _run(copy, [finder], timeout_s):
            return again
        passed_over.append(finder)


def _run(copy: PrivateCopy, tests: list[str], timeout_s: float) -> str:
    """The test that fails first, another sign of the fault, or an empty text when all pass."""
    command = [*_pytest(), "-x", "-rfE", f"--timeout={TEST_TIMEOUT_S}", *tests]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command,
            cwd=copy.path,
            env=copy.environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        ending = _watch(process, time.monotonic() + timeout_s)
        output.seek(0)
        text = output.read()
    if ending:
        return ending
    if process.returncode in (0, 5):
        return ""
    if process.returncode < 0:
        return f"the tests died of {signal.Signals(-process.returncode).name}"
    # Names of parameters may hold spaces.
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", text, re.M)
    return failed.group(1) if failed else (text.strip().splitlines() or ["the tests broke off"])[-1]


def _watch(process: subprocess.Popen[bytes], deadline_s: float) -> str:
    """Wait for the end of the tests, and end them when they go too far."""
    tests = psutil.Process(process.pid)
    while True:
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            pass
        else:
            return ""
        processes = [tests, *tests.children(recursive=True)]
        ending = "does not end" if time.monotonic() > deadline_s else ""
        if sum(_resident_bytes(p) for p in processes) > MEMORY_BYTES_MAX:
            ending = "takes all memory"
        if ending:
            for one in processes:
                _kill(one)
            process.wait()
            return ending


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


# --- what came of it


def _print_outcome(number: str, outcome: Outcome) -> None:
    fault = outcome.fault
    verdict = f"found by {outcome.finder}" if outcome.finder else "UNSEEN"
    print(f"{number} {fault.path}:{fault.line} {fault.what}: {verdict} ({outcome.seconds:.0f} s)", flush=True)


def _print_summary(seed: int, copy: PrivateCopy, outcomes: list[Outcome]) -> int:
    unseen = [o.fault for o in outcomes if not o.finder]
    for fault in unseen:
        source = (copy.path / fault.path).read_bytes()
        before, after = source.decode().splitlines(), fault.apply(source).decode().splitlines()
        print(f"\nunseen: {fault.path}:{fault.line} {fault.what}")
        print("\n".join(difflib.unified_diff(before, after, fault.path, fault.path, lineterm="", n=2)))
    found = len(outcomes) - len(unseen)
    print(f"\nseed {seed}: {found} of {len(outcomes)} faults found")
    return 0 if found >= FOUND_SHARE_MIN * len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
