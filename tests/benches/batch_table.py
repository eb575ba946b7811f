"""The figures of `main.py batch` as lines of a terminal and as tables of a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from benches.batch import BatchFigure, EngineStart

from sqlstream.client.commands.bench import cells_line
from sqlstream.errors import ErrorInfo

WIDTH = 12
COLUMNS = ("query", "engine", "first s", "wall s", "CPU s", "peak MiB", "rows", "same")


def start_line(start: EngineStart) -> str:
    """
    >>> start_line(EngineStart("duckdb", 0.25))
    'duckdb: started in 0.25 s'
    """
    if start.error is not None:
        return f"{start.engine}: did not start: {reason(start.error)}"
    return f"{start.engine}: started in {start.start_s:.2f} s"


def figure_line(figure: BatchFigure) -> str:
    if figure.error is not None:
        words = "refused" if figure.is_refused else "failed"
        return f"{cells_line((figure.query, figure.engine), WIDTH)}    {words}: {reason(figure.error)}"
    first = "" if figure.first_s is None else f"{figure.first_s:.2f}"
    same = {None: "", True: "yes", False: "NO"}[figure.is_same_answer]
    cells = (f"{figure.wall_s:.3f}", f"{figure.cpu_s:.2f}", _mebibytes(figure), f"{figure.rows:,}", same)
    return cells_line((figure.query, figure.engine, first, *cells), WIDTH)


def reason(error: ErrorInfo) -> str:
    """The error in one line."""
    return f"{error.message} [{error.code}]"


def markdown(starts: list[EngineStart], figures: list[BatchFigure]) -> str:
    """A table of the queries with a column for each engine and figure, the fastest in bold, then one of the engines, then what
    was refused."""
    engines = [start.engine for start in starts if start.error is None]
    found = {(figure.query, figure.engine): figure for figure in figures}
    rows = []
    for query in dict.fromkeys(figure.query for figure in figures):
        of_query = [found[query, engine] for engine in engines]
        answered = [figure for figure in of_query if figure.error is None]
        best_s = min((figure.wall_s for figure in answered), default=0.0)

        def wall(figure: BatchFigure, best_s: float = best_s) -> str:
            return f"**{figure.wall_s:.3f}**" if figure.wall_s == best_s else f"{figure.wall_s:.3f}"

        shown: tuple[Callable[[BatchFigure], str], ...] = (wall, lambda f: f"{f.cpu_s:.2f}", _mebibytes)
        cells = [
            figure_text(figure) if figure.error is None else "–"
            for figure_text in shown
            for figure in of_query
        ]
        rows.append([f"`{query}`", f"{answered[0].rows:,}" if answered else "", *cells])
    heads = [f"{figure}, {engine}" for figure in ("wall s", "CPU s", "peak MiB") for engine in engines]
    firsts = {figure.engine: figure for figure in figures if figure.first_s is not None}
    sections = [
        _table(["query", "result rows", *heads], rows),
        _table(["engine", "start s", "first query s", "the same, warm"], [_start(s, firsts) for s in starts]),
        "\n".join(f"* `{f.query}` on {f.engine}: {reason(f.error)}" for f in figures if f.error is not None),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _start(start: EngineStart, firsts: dict[str, BatchFigure]) -> list[str]:
    if start.error is not None:
        return [start.engine, reason(start.error), "", ""]
    first = firsts.get(start.engine)
    if first is None:
        return [start.engine, f"{start.start_s:.2f}", "", ""]
    cold, warm = f"{first.first_s:.2f} (`{first.query}`)", f"{first.wall_s:.2f}"
    return [start.engine, f"{start.start_s:.2f}", cold, warm]


def _mebibytes(figure: BatchFigure) -> str:
    return f"{figure.peak_rss_bytes / 2**20:,.0f}"


def _table(heads: list[str], rows: Iterable[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
