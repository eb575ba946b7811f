"""Every script in tests/golden/results, run to its end, at each parallelism and size of batches: one golden output."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from oracle import Engine, Finished

from sqlstream.client.rendering.render import make_renderer
from sqlstream.client.rendering.tables import Look

QUICK = ((1, 65536), (2, 1), (3, 7))
"""Each parallelism and each size once; the other pairs are slow tests."""
PAIRS = [(n, rows) for n in (1, 2, 3) for rows in (1, 7, 65536)]
RESULTS = Path(__file__).parent / "results"
SCRIPTS = sorted(RESULTS.glob("*.sql"))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = Engine(tmp_path_factory.mktemp("tables"))
    yield made
    made.close()


def printed(finished: Finished) -> str:
    """One JSON object per row, in which NULL and the empty string differ; rows sorted unless the query orders them."""
    out = io.StringIO()
    renderer = make_renderer("json", Look(finished.schema), with_op=False, out=out)
    for batch in finished.table.to_batches():
        renderer.write(batch)
    renderer.finish()
    rows = out.getvalue().splitlines()
    return "\n".join(rows if finished.is_ordered else sorted(rows))


@pytest.mark.parametrize(
    ("parallelism", "batch_rows"),
    [pair if pair in QUICK else pytest.param(*pair, marks=pytest.mark.slow) for pair in PAIRS],
)
@pytest.mark.parametrize("script", SCRIPTS, ids=[s.stem for s in SCRIPTS])
def test_a_script_has_the_rows_in_its_golden_file(
    script: Path,
    parallelism: int,
    batch_rows: int,
    engine: Engine,
    golden: Callable[[Path, str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The scripts name their files relative to themselves.
    monkeypatch.chdir(RESULTS)
    engine.configure(parallelism, batch_rows)
    finished = engine.run(script.read_text())
    golden(script.with_suffix(".out"), "\n\n".join(map(printed, finished)))
