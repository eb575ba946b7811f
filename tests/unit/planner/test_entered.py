"""How much of the house one join with GROUP BY enters on its way from the command line to its JobGraph."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import FrameType

import pytest
from work_harness import ROOT, Call, calls_between

from sqlstream.client.main import main

TABLES = """
CREATE TABLE orders (id BIGINT, customer BIGINT, price DOUBLE) WITH ('connector' = 'datagen');
CREATE TABLE customers (id BIGINT, name STRING) WITH ('connector' = 'datagen');
"""
QUERY = """
SELECT c.name, COUNT(*) AS n, SUM(o.price) AS total
FROM orders AS o JOIN customers AS c ON o.customer = c.id GROUP BY c.name;
"""
FILES_MAX, FUNCTIONS_MAX = 60, 475
FOLDERS_MAX, STEPS_UP_MAX = 26, 3

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LAYERS: dict[str, dict[str, int]] = {
    container: {
        name.strip(): level
        for level, layer in enumerate(contract["layers"])
        for name in layer.replace("|", ":").split(":")
    }
    for contract in CONTRACTS
    if contract["type"] == "layers"
    for container in contract["containers"]
}
"""Package → its rooms, with their level from the top: import-linter's contracts."""


@pytest.fixture
def explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, set[Call]]:
    """The calls of `sqlstream explain`: all `to` the JobGraph but those for the tables, and those that are `of` the query."""
    script = tmp_path / "tables.sql"
    script.write_text(TABLES)
    stage = "to"

    def is_to_graph(frame: FrameType) -> bool:
        nonlocal stage
        name, text = frame.f_code.co_qualname, frame.f_locals.get("text")
        if name == "_explain":
            stage = "tables" if text == TABLES else "to"
        elif name == "explain" and frame.f_code.co_filename.endswith("planner/compile.py"):
            stage = "printing"
        return stage == "to"

    def is_of_query(frame: FrameType) -> bool:
        nonlocal stage
        if frame.f_code.co_qualname == "_explain":
            stage = "tables" if frame.f_locals["text"] == TABLES else "query"
        return stage == "query"

    def explain() -> None:
        assert main(["explain", str(script), "-c", QUERY]) == 0

    found = {"to": calls_between(explain, is_to_graph)}
    stage = ""
    found["of"] = calls_between(explain, is_of_query)
    assert "GlobalGroupAggregate" in capsys.readouterr().out
    return found


def test_the_planner_explains_a_join_with_group_by_in_few_files_and_functions(
    explained: dict[str, set[Call]], capsys: pytest.CaptureFixture[str]
) -> None:
    entered: dict[str, set[str]] = {}
    for call in explained["of"]:
        if call.place.startswith("planner/"):
            entered.setdefault(call.place, set()).add(call.name)
    count = sum(map(len, entered.values()))
    with capsys.disabled():
        print(f"\n{len(entered)} files, {count} functions")
    for place, names in sorted(entered.items()):
        print(f"{place}: {', '.join(sorted(names))}")
    assert len(entered) <= FILES_MAX
    assert count <= FUNCTIONS_MAX


def test_a_select_passes_few_folders_on_its_way_to_the_job_graph(explained: dict[str, set[Call]]) -> None:
    folders = {str(Path(call.place).parent) for call in explained["to"]}
    print("\n".join(sorted(folders)))
    assert len(folders) <= FOLDERS_MAX


def test_a_select_is_seldom_handed_back_up(explained: dict[str, set[Call]]) -> None:
    """A step up: a room calls one that stands above it, as a function that it was given."""
    steps = {}
    for call in explained["to"]:
        if call.caller and (step := _step_up(call.caller, call.place)):
            steps.setdefault(step, call)
    for (source, target), call in sorted(steps.items()):
        print(f"{source} -> {target}: {call.caller_name} calls {call.name}")
    assert len(steps) <= STEPS_UP_MAX


def _step_up(caller: str, place: str) -> tuple[str, str] | None:
    """The rooms of a call into a room above."""
    a, b = _rooms(caller), _rooms(place)
    package = "sqlstream"
    for source, target in zip(a, b, strict=False):
        layers = LAYERS.get(package)
        if layers is None:
            return None
        if source != target:
            is_up = layers[target] < layers[source]
            return (f"{package}.{source}", f"{package}.{target}") if is_up else None
        package += f".{source}"
    return None


def _rooms(place: str) -> list[str]:
    parts = list(Path(place).with_suffix("").parts)
    return parts[1:] if parts[0] == "sqlstream" else parts
