"""The regular expression of a table's paths (`source.path.regex-pattern`)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

_READ_OTHERWISE = ("[:", "{,")
"""What RE2 takes for something else than Python does."""


class PathPattern:
    """Empty: every path matches. No state.

    Python's expressions can take for ever, and hold up the whole process meanwhile. So a process that runs nothing that a user
    wrote asks `may_match`, which needs linear time, and leaves the last word to the readers' `matches`.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._compiled = re.compile(pattern)

    def matches(self, path: str) -> bool:
        return not self._pattern or self._compiled.fullmatch(path) is not None

    def may_match(self, paths: Sequence[str]) -> list[bool]:
        """False for a path that does not match. True for all others, and where only Python's expressions can tell.

        >>> PathPattern(r".*/part-[0-9]+[.]csv").may_match(["t/part-17.csv", "t/part-17.csv.tmp"])
        [True, False]
        >>> PathPattern(r"(?!.*tmp).*").may_match(["t/a.tmp"])
        [True]
        """
        if not self._pattern or any(text in self._pattern for text in _READ_OTHERWISE):
            return [True] * len(paths)
        # What letters and digits are beyond ASCII, the two see differently.
        plain = [path.isascii() and path.isprintable() for path in paths]
        known = pa.array([path for path, is_plain in zip(paths, plain, strict=True) if is_plain], pa.string())
        try:
            matching = iter(pc.match_substring_regex(known, f"^(?:{self._pattern})$").to_pylist())
        except pa.ArrowInvalid:
            # Look-around and back references.
            return [True] * len(paths)
        return [next(matching) if is_plain else True for is_plain in plain]
