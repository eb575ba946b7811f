"""As a program: runs the golden scripts and Nexmark queries in batch on an engine, and prints each outcome as a line of JSON.
Its words are the engine, and settings as `key=value`.

A program of its own, since Spark starts once in a process and stays."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
from pathlib import Path

from differential.nexmark_batch import BATCH_SQL
from differential.test_nexmark import answer
from golden.test_results import SCRIPTS, printed
from oracle import Engine, Finished, assert_same_rows, rows_of

from sqlstream.planner.batch import CompiledBatch
from sqlstream.planner.compile import CompiledPlan
from sqlstream.runtime.batch.engine import close_engines
from sqlstream.runtime.split_enumerators import with_absolute_paths

EVENTS = 20_000
ORDER_OF_ARRIVAL = ("q12", "q19")
"""Windows of processing time, and ties: q19 may keep either of two bids of one price."""


class EngineOfOtherDirectories(Engine):
    """Tasks may run in other directories than this process: the paths of tables are made absolute, as sessions do it."""

    def job(self, plan: CompiledPlan | CompiledBatch) -> Finished:
        return super().job(dataclasses.replace(plan, job_graph=with_absolute_paths(plan.job_graph)))


def main(engine_name: str, *words: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        engine = EngineOfOtherDirectories(Path(directory))
        settings = {"execution.runtime-mode": "AUTOMATIC", "execution.batch.engine": engine_name}
        settings |= dict(word.split("=", 1) for word in words)
        for script in SCRIPTS:
            if script.stem == "late_rows":
                continue
            engine.configure(1, 65536, settings)
            finished = engine.run(script.read_text())
            say(
                script.stem,
                "\n\n".join(map(printed, finished)),
                sum(isinstance(each.plan, CompiledPlan) for each in finished),
            )
        for query in BATCH_SQL:
            if query not in ORDER_OF_ARRIVAL:
                say(query, compared(engine, query, {**settings, "execution.runtime-mode": "BATCH"}), 0)
        engine.close()


def compared(engine: Engine, query: str, settings: dict[str, str]) -> str:
    """Empty when the rows are those of the stream."""
    streamed = answer(engine, query, parallelism=1, events=EVENTS)
    batch = answer(engine, query, parallelism=1, settings=settings, events=EVENTS)
    try:
        assert_same_rows(rows_of(batch), rows_of(streamed))
    except AssertionError as error:
        return str(error)
    return ""


def say(name: str, text: str, streamed: int) -> None:
    print(json.dumps({"name": name, "text": text, "streamed": streamed}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
    # As commands end (sqlstream.client.main).
    close_engines()
    sys.stdout.flush()
    os._exit(0)
