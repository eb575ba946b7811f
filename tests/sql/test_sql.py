"""Every query in tests/sql leaves its rows, however it runs and wherever they go; DuckDB has them too.

A query is run in one of its draws (sql_runs.py), another one each day; a fifth of the queries, another fifth each day, are also
killed. The queries of state.test are moved to other subtasks each day, and a third of them are run in another draw, too.
`--draws all` takes all, `--day N` those of another day. A draw that fails is noted in failed_draws.txt, and runs each time from
then on."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from sql_cases import DIRECTORY, FILES, Case, read_cases, rewrite, rows_of, today, written
from sql_oracles import check, check_oracles
from sql_runs import Draw, draws, run_case

from sqlstream.errors import UserError

FAILED = DIRECTORY / "failed_draws.txt"
"""Lines of `file:query number`."""
TEXT_DAYS = 7
"""DuckDB is asked for the text of another query each day, and for all of them by --rewrite."""
BOUND_DAYS = 2
"""The same for the bound plan. It is asked for each optimised one every day."""
CASES = [case for file in FILES for case in read_cases(file)]


@pytest.fixture(scope="module")
def rewritten() -> Iterator[dict[str, dict[str, list[str]]]]:
    """Of --rewrite: the rows of each query, by file; files with none stay as they are."""
    found: dict[str, dict[str, list[str]]] = {}
    yield found
    for file in FILES:
        if file.stem in found:
            rewrite(file, found[file.stem])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_query_leaves_its_rows(
    case: Case, request: pytest.FixtureRequest, tmp_path: Path, rewritten: dict[str, dict[str, list[str]]]
) -> None:
    if case.is_free("refused"):
        with pytest.raises(UserError) as raised:
            run_case(case, Draw(), tmp_path)
        assert raised.value.code == case.words["refused"]
        return
    if request.config.getoption("--rewrite"):
        result = run_case(case, Draw(), tmp_path)
        check_oracles(case, result)
        rewritten.setdefault(case.file, {})[case.name] = written(
            result.schema, rows_of(result.rows), result.is_ordered
        )
        return
    day = request.config.getoption("--day") or today()
    draws_all = request.config.getoption("--draws") == "all"
    for number, draw in enumerate(draws(str(case)) if draws_all else chosen(case, day)):
        directory = tmp_path / str(number)
        directory.mkdir()
        try:
            result = run_case(case, draw, directory)
            check(case, result)
            if number == 0:
                # What it has for the text depends on the file alone, and for the bound plan on the lowering.
                turn = zlib.crc32(case.sql.encode()) - day
                check_oracles(
                    case,
                    result,
                    has_text=draws_all or turn % TEXT_DAYS == 0,
                    has_bound=draws_all or turn % BOUND_DAYS == 0,
                )
        except Exception as error:  # whatever it is, the draw is run again
            note_failed(case, draw)
            again = f"pytest 'tests/sql/test_sql.py::test_a_query_leaves_its_rows[{case}]' --day {day}"
            raise AssertionError(f"{draw}\n{again}\n{error}") from error


def chosen(case: Case, day: int) -> list[Draw]:
    found = draws(str(case))
    killed = next(draw for draw in found if draw.life == "killed")
    moved = next(draw for draw in found if draw.life == "moved" and draw.sink == "recorded")
    failed = [found[number] for number in failed_draws(case) if number < len(found)]
    turn = zlib.crc32(str(case).encode()) - day
    of_the_day = found[day % len(found)]
    if case.file == "state":
        drawn = [moved, *([of_the_day] if turn % 3 == 0 else ())]
    else:
        drawn = [of_the_day]
    return list(dict.fromkeys([*drawn, *([killed] if turn % 5 == 0 else ()), *failed]))


def failed_draws(case: Case) -> list[int]:
    lines = FAILED.read_text().splitlines() if FAILED.exists() else []
    return [int(number) for name, _, number in (line.rpartition(" ") for line in lines) if name == str(case)]


def note_failed(case: Case, draw: Draw) -> None:
    if draw.seed not in failed_draws(case):
        with FAILED.open("a") as file:
            file.write(f"{case} {draw.seed}\n")
