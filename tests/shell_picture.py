"""Draws docs/pictures/shell.svg from the screens of a real shell: `python tests/shell_picture.py`."""

from __future__ import annotations

import html
import sys
import tempfile
import time
from pathlib import Path

import pyte
from command_harness import ROOT
from shell_harness import ENTER, ShellOnTerminal

PICTURE = ROOT / "docs" / "pictures" / "shell.svg"
COLUMNS, LINES = 92, 18
_CELL_WIDTH, _CELL_HEIGHT, _MARGIN = 8.4, 18, 12
_COLOURS = {
    "default": "#d4d4d4", "black": "#1e1e1e", "red": "#f48771", "green": "#b5cea8", "brown": "#dcdcaa", "blue": "#569cd6",
    "magenta": "#c586c0", "cyan": "#4ec9b0", "white": "#d4d4d4", "brightblack": "#808080",
}  # fmt: skip
_BACKGROUND = "#1e1e1e"


def svg(screens: list[pyte.Screen]) -> str:
    """The screens one below the other, as text with the colours of its cells."""
    height = sum(_height(s) for s in screens) + _MARGIN * (len(screens) - 1)
    width = round(COLUMNS * _CELL_WIDTH) + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">'
    ]
    top = 0
    for screen in screens:
        parts.append(
            f'<rect y="{top}" width="{width}" height="{_height(screen)}" rx="6" fill="{_BACKGROUND}"/>'
        )
        for row in range(screen.lines):
            parts += _row(screen, row, top + _MARGIN + row * _CELL_HEIGHT)
        top += _height(screen) + _MARGIN
    return "\n".join([*parts, "</svg>", ""])


def _height(screen: pyte.Screen) -> int:
    return screen.lines * _CELL_HEIGHT + 2 * _MARGIN


def _row(screen: pyte.Screen, row: int, top: float) -> list[str]:
    """The runs of cells with one style."""
    cells = [screen.buffer[row][column] for column in range(screen.columns)]
    parts: list[str] = []
    start = 0
    for end in range(1, len(cells) + 1):
        if end < len(cells) and cells[end][1:] == cells[start][1:]:
            continue
        parts += _run(
            "".join(c.data for c in cells[start:end]), cells[start], _MARGIN + start * _CELL_WIDTH, top
        )
        start = end
    return parts


def _run(text: str, style: pyte.screens.Char, left: float, top: float) -> list[str]:
    front, back = _colour(style.fg, _COLOURS["default"]), _colour(style.bg, _BACKGROUND)
    if style.reverse:
        front, back = back, front
    found = []
    if back != _BACKGROUND:
        width = len(text) * _CELL_WIDTH
        found.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{_CELL_HEIGHT}" fill="{back}"/>'
        )
    if text.strip():
        weight = ' font-weight="bold"' if style.bold else ""
        length = len(text) * _CELL_WIDTH
        found.append(
            f'<text x="{left:.1f}" y="{top + 14:.1f}" fill="{front}"{weight} xml:space="preserve" '
            f'textLength="{length:.1f}">{html.escape(text)}</text>'
        )
    return found


def _colour(name: str, default: str) -> str:
    if name == "default":
        return default
    return _COLOURS.get(name) or f"#{name}"


def _copy(shell: ShellOnTerminal, lines: int) -> pyte.Screen:
    """The first lines of the screen as it is now."""
    copied = pyte.Screen(COLUMNS, lines)
    for row in range(lines):
        for column in range(COLUMNS):
            copied.buffer[row][column] = shell.screen.buffer[row][column]
    return copied


def draw(home: Path) -> str:
    """A session: a table, completion, an error, and the live table of a query that does not end."""
    with ShellOnTerminal(home, columns=COLUMNS, lines=LINES) as shell:
        shell.wait_for_prompt()
        # Colours and completion are there once the modules behind them are loaded.
        shell.wait(lambda: "coalesce" in _menu(shell), "completion")
        shell.send(
            "CREATE TABLE bid (channel STRING, price BIGINT, `dateTime` TIMESTAMP(3)) WITH (\r"
            "  'connector' = 'nexmark', 'nexmark.table' = 'bid', 'nexmark.paced' = 'true',\r"
            "'nexmark.rate' = '5000');\r"
        )
        shell.wait_for('table "bid" created')
        shell.send("SELECT chanel FROM bid;" + ENTER)
        shell.wait_for("did you mean")
        shell.wait_for_prompt()
        shell.send("SELECT channel, COUNT(*) AS bids, MAX(price) AS highest FROM bid GROUP BY ch")
        shell.wait(lambda: shell.lines[-1].strip().startswith("chr "), "the menu")
        typed = _copy(shell, LINES)
        shell.send("annel;" + ENTER)
        shell.wait(lambda: shell.lines[-1].startswith(" rows") and len(shell.lines[8]) > 20, "the live table")
        time.sleep(1)
        shell.read()
        return svg([typed, _copy(shell, LINES)])


def _menu(shell: ShellOnTerminal) -> str:
    shell.send("SELECT coa")
    end = time.monotonic() + 1
    while time.monotonic() < end:
        shell.read()
    text = shell.text
    shell.send("\x15\x0c")  # Ctrl-U drops the line, Ctrl-L clears the screen.
    shell.wait_for_prompt()
    return text


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        PICTURE.write_text(draw(Path(directory)))
    sys.stdout.write(f"{PICTURE}\n")
