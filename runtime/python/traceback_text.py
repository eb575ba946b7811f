"""The traceback of a user's function, without the frames of the engine."""

from __future__ import annotations

import linecache
import os
import traceback

import sqlstream

FRAMES_MAX = 20
TEXT_MAX = 4000
_OURS = os.path.dirname(os.path.abspath(sqlstream.__file__)) + os.sep


def user_traceback(error: BaseException) -> str:
    """The frames of the user's modules, the last FRAMES_MAX, and the exception; at most TEXT_MAX characters."""
    lines: list[str] = []
    frames = [
        (frame, number)
        for frame, number in traceback.walk_tb(error.__traceback__)
        if not _is_ours(frame.f_code.co_filename)
    ]
    if len(frames) > FRAMES_MAX:
        lines.append(f"  … {len(frames) - FRAMES_MAX} frames left out")
        frames = frames[-FRAMES_MAX:]
    for frame, number in frames:
        name = frame.f_code.co_filename
        lines.append(f'  File "{name}", line {number}, in {frame.f_code.co_name}')
        source = linecache.getline(name, number, frame.f_globals).strip()
        if source:
            lines.append(f"    {source[:200]}")
    said = "".join(traceback.format_exception_only(error)).strip()
    head = ["Traceback (most recent call last):"] if frames else []
    text = "\n".join([*head, *lines, said])
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX // 2]}\n…\n{text[-TEXT_MAX // 2 :]}"


def _is_ours(filename: str) -> bool:
    return filename.startswith((_OURS, "<frozen importlib")) or "/importlib/" in filename
