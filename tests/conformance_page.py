"""Pages of what can be used: their examples in files, and the cells of their tables."""

from __future__ import annotations

from pathlib import Path

_TEXT_SHOWN = 100


def short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_SHOWN else line[: _TEXT_SHOWN - 1] + "…"


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def code(text: str) -> str:
    return f"`` {cell(text)} ``" if "`" in text else f"`{cell(text)}`"


def features(file: Path) -> tuple[str, str, list[tuple[str, str]]]:
    """The title of a section, a remark, and the name and example of each feature."""
    title, remark, found = "", "", list[tuple[str, str]]()
    for line in file.read_text().splitlines():
        if line.startswith("-- # "):
            title = line.removeprefix("-- # ")
        elif line.startswith("-- : "):
            found.append((line.removeprefix("-- : "), ""))
        elif line.startswith("-- "):
            remark = line.removeprefix("-- ")
        elif line.strip():
            name, text = found[-1]
            found[-1] = name, f"{text} {line.strip()}".strip()
    return title, remark, found
