"""The faults that `make mutants` puts into the code, and the tests that it chooses for them."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


def module(name: str) -> Any:
    """A module of tests/mutants, which is no package."""
    place = ROOT / "tests" / "mutants"
    sys.path.insert(0, str(place))
    try:
        spec = importlib.util.spec_from_file_location(name, place / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        made = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made
    finally:
        sys.path.remove(str(place))


faults = module("faults")
selection = module("selection")


def changed(source: str) -> list[str]:
    """Every faulty text of a source, by place."""
    return [f.apply(source.encode()).decode() for f in faults.faults_of("x.py", source.encode())]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", ["x = a <= b"]),
        ("x = a is not None", ["x = a is None"]),
        ("x = a not in b", ["x = a in b"]),
        ("x = a and b and c", ["x = a or b and c", "x = a and b or c"]),
        ("x = not (a or b)", ["x = (a or b)", "x = not (a and b)"]),
        ("x = a + b", ["x = a - b"]),
        ("x = 'ä' % b", ["x = 'ä' + b"]),
        ("x -= 1", ["x += 1", "x -= 2"]),
        ("x = True", ["x = False"]),
        ("x = min(a, b)", ["x = max(a, b)"]),
        ("x = zip(a, b(not c), strict=True)", ["x = zip(a, b(c), strict=True)"]),
        ("x = zip(a + b, c, strict=True)", ["x = zip(a - b, c, strict=True)"]),
        ("a.b(\n    c\n)", ["pass"]),
        ("def f() -> int:\n    return a", ["def f() -> int:\n    return None"]),
        ("x = a / b ** c", ["x = a * b ** c", "x = a / b * c"]),
        ("x = -a", ["x = a"]),
        ("def f(self):\n    self.a = b", ["def f(self):\n    pass"]),
        ("def f(a):\n    raise a", ["def f(a):\n    pass"]),
        ("def f(a):\n    with self._lock:\n        a", ["def f(a):\n    if True:\n        a"]),
        (
            "def f(a):\n    try:\n        a\n    except E:\n        b",
            ["def f(a):\n    try:\n        a\n    except E:\n        raise\n        b"],
        ),
        (
            "def f(a):\n    match a:\n        case B():\n            b",
            ["def f(a):\n    match a:\n        case B() if False:\n            b"],
        ),
        ("def f(a):\n    x = g(a, b=c)", ["def f(a):\n    x = g(a)"]),
        (
            "def f(a):\n    x = 'SELECT b WHERE c IS NULL'",
            ["def f(a):\n    x = 'SELECT b WHERE c IS NOT NULL'"],
        ),
        ("WATERMARK_MIN = 1", ["WATERMARK_MIN = 2"]),
        ("while a:\n    break", ["while not (a):\n    break", "while a:\n    continue"]),
    ],
)
def test_each_fault_changes_one_place(source: str, expected: list[str]) -> None:
    assert changed(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""a doc"""',
        "def f(a: int | None = None) -> dict[str, int | None]: ...",
        "raise ValueError(1 + 2)",
        "assert a < 1",
        "logger.warning('%d', 1)",
        "if TYPE_CHECKING:\n    import a",
        "WAIT_S = 10",
        "Rows = list[int | None]",
        "def __repr__(self):\n    return 1",
        "x = f'{a + 1}'",
    ],
)
def test_what_is_for_people_or_for_speed_gets_no_fault(source: str) -> None:
    assert changed(source) == []


def test_faults_of_the_product_are_python_and_stand_in_the_function_that_they_name() -> None:
    for path in sorted((ROOT / "runtime" / "taskmanager").glob("*.py")):
        source = path.read_bytes()
        for number, fault in enumerate(faults.faults_of(path.name, source), len(path.name)):
            # To parse a file takes a hundred times longer than the rest.
            if number % 5 == 0:
                ast.parse(fault.apply(source))
            assert fault.function.rpartition(".")[2].encode() in source[: source.find(b"\n", fault.start)]
    source = (ROOT / "runtime" / "taskmanager" / "task.py").read_bytes()
    assert "Task._on_partition_lost.<locals>.fail" in {f.function for f in faults.faults_of("", source)}
    assert "Task._process" in {f.function for f in faults.faults_of("", source)}


def test_the_tests_of_a_fault_are_those_that_call_its_function_then_those_that_start_processes(
    tmp_path: Path,
) -> None:
    calls = {
        "tests/unit/a/test_other.py": {"seconds": 1.0, "called": ["runtime/a/b.py:f", "runtime/a/d.py:d"]},
        "tests/unit/a/test_b.py": {"seconds": 9.0, "called": ["runtime/a/b.py:g"]},
        "tests/golden/test_plans.py": {"seconds": 0.5, "called": ["runtime/a/b.py:f", "runtime/a/b.py:g"]},
        "tests/e2e/test_long.py": {"seconds": 5.0, "called": ["runtime/a/b.py:f"]},
        "tests/e2e/test_short.py": {"seconds": 2.0, "called": ["runtime/a/b.py:f"]},
    }
    names = [*calls, "tests/e2e/test_x.py", "runtime/a/b.py", "runtime/kernels/loops.py"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        text = "from sqlstream.runtime.kernels.loops import loop" if name == "runtime/a/b.py" else ""
        (tmp_path / name).write_text(text)

    def tests_for(path: str, function: str, **options: Any) -> list[str]:
        chosen = selection.Selection(tmp_path, names, calls, **options)
        return [Path(t).stem for t in chosen.tests_for(faults.Fault(path, 1, function, "", 0, 0, ""))]

    # The test of the file itself, those that spend most of their time in it, and what is not known of at last.
    starting = ["test_short", "test_long", "test_x"]
    assert tests_for("runtime/a/b.py", "f") == ["test_b", "test_plans", "test_other", *starting]
    assert tests_for("runtime/a/b.py", "f", has_commands=False) == ["test_b", "test_plans", "test_other"]
    assert tests_for("runtime/a/b.py", "f", seconds_max=4.0) == [
        "test_plans",
        "test_other",
        "test_short",
        "test_x",
    ]
    assert tests_for("runtime/a/b.py", "f", seconds_max=9.6) == ["test_b", "test_plans", *starting]
    assert tests_for("runtime/a/other.py", "f") == ["test_other", "test_x"]
    assert tests_for("runtime/kernels/loops.py", "loop") == ["test_plans", "test_other", "test_b", *starting]
    assert tests_for("runtime/a/c.py", "h") == ["test_x"]
    assert tests_for("runtime/a/b.py", "") == ["test_b", "test_plans", "test_other", *starting]


def test_a_fault_of_a_module_or_of_a_kernel_is_shown_to_those_that_import_it(tmp_path: Path) -> None:
    texts = {
        "runtime/a/options.py": "",
        "runtime/a/reader.py": "from sqlstream.runtime.kernels import index, rank as kernels",
        "runtime/kernels/rank.py": "",
        "tests/unit/a/test_defaults.py": "from sqlstream.runtime.a.options import Options",
        "tests/unit/a/test_ranked.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    calls = {
        "tests/unit/a/test_defaults.py": {"seconds": 1.0, "called": []},
        "tests/unit/a/test_ranked.py": {"seconds": 1.0, "called": ["runtime/a/reader.py:read"]},
    }
    chosen = selection.Selection(tmp_path, list(texts), calls)
    of_module = faults.Fault("runtime/a/options.py", 1, "", "", 0, 0, "")
    of_kernel = faults.Fault("runtime/kernels/rank.py", 1, "place", "", 0, 0, "")
    assert chosen.tests_for(of_module) == ["tests/unit/a/test_defaults.py"]
    assert chosen.tests_for(of_kernel) == ["tests/unit/a/test_ranked.py"]


def test_every_fault_that_is_passed_over_still_stands_in_the_code() -> None:
    program = (
        "import sys; sys.path.insert(0, 'tests/mutants'); import main; print(main.stale_entries(main.ROOT))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "[]\n"


def test_a_process_that_a_test_starts_writes_what_it_calls(tmp_path: Path) -> None:
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "mutants")])
    recorded = {"PYTHONPATH": path, "MUTANTS_CALLS": str(tmp_path)}
    program = "import os; from sqlstream.types import decimal; decimal(5, 2); os._exit(0)"
    for test in ({}, {"PYTEST_CURRENT_TEST": "tests/e2e/test_x.py::test_y (call)"}):
        assert list(tmp_path.iterdir()) == []
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **recorded, **test} if test else recorded,
            check=True,
        )
    (place,) = tmp_path.iterdir()
    assert place.name.startswith("tests~e2e~test_x.py~")
    lines = place.read_text().splitlines()
    assert "sqlstream/types.py:decimal" in lines
    assert len(lines) == len(set(lines))
