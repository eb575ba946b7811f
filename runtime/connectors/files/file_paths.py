"""Which files a table has: paths, patterns, partitions written into directory names."""

from __future__ import annotations

import os
import re
import urllib.parse
from collections.abc import Mapping, Sequence, Set

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import ExternalError, UserError
from sqlstream.graph.artifacts import ARTIFACT
from sqlstream.runtime.connectors.files.table_log import TableLog, is_of_sink
from sqlstream.runtime.host.clock import now_ms
from sqlstream.runtime.host.file_systems import FILE_SYSTEMS, is_in_store, key_start, place_of, scheme_of
from sqlstream.runtime.host.files import list_if_there
from sqlstream.spi.files import Files, FileStatus, is_hidden, refuse_home

DEFAULT_PARTITION_NAME = "__DEFAULT_PARTITION__"

_LOOKS_MAX = 20
"""How often the files of a table are listed because others have taken their place meanwhile."""

_AGREEING_MAX = 5
"""How often they are listed because further files have come meanwhile."""

_CLOCKS_APART_MS_MAX = 15 * 60_000
"""How far the clocks of stores may be from this one: where S3's differ by more, it refuses every request."""

_FLAGS = re.compile(r"(?:\(\?[aiLmsux]+\))+")
_WILDCARD = re.compile(r"[*?\[]")
_UNSAFE_IN_NAME = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")


def local_path(path: str) -> str:
    """The path as the operating system takes it. UserError SS4002 for a scheme that is not `file`, and for what can be no
    path."""
    local = _without_scheme(path)
    if not local or "\0" in local:
        raise UserError(
            "SS4002",
            'option "path" is empty' if not local else 'option "path" contains a zero byte',
            option="path",
            hint="write a path of this machine",
        )
    refuse_home(path, 'option "path"', "path")
    return local


def table_path(path: str) -> str:
    """The path of a table of files: one of a file system elsewhere such as `s3://bucket/key`, or as `local_path` returns it.
    UserError SS4002 for what is neither."""
    if is_in_store(path):
        return place_of(path).path
    if (scheme := scheme_of(path)) not in ("", "file"):
        raise UserError(
            "SS4002",
            f'option "path" names the file system "{scheme}", which is none of {", ".join(FILE_SYSTEMS)}: "{path}"',
            option="path",
            hint="write a path of this machine, or one of these file systems",
        )
    return local_path(path)


def absolute_path(key: str, path: str, directory: str) -> str:
    """The path of an option, below `directory` when it is relative. UserError SS4002 when the directory would become a part of
    the pattern."""
    if is_in_store(path):
        return path
    absolute = os.path.join(directory, local_path(path))
    if is_pattern(directory) and absolute.startswith(directory):
        raise UserError(
            "SS4002",
            f'option "{key}" is a path below "{directory}", which would be read as a pattern',
            option=key,
            hint="start the command in a directory without *, ? and [ in its name",
        )
    return absolute


def _without_scheme(path: str) -> str:
    scheme = scheme_of(path)
    if not scheme:
        return path
    if scheme != "file":
        raise UserError(
            "SS4002",
            f'option "path" names the file system "{scheme}", but files must be local: "{path}"',
            option="path",
            hint="write a path of this machine, with or without file:// in front",
        )
    return urllib.parse.unquote("/" + path.partition(":")[2].lstrip("/"))


def is_pattern(path: str) -> bool:
    return _WILDCARD.search(path, key_start(path)) is not None


def root_of(path: str) -> str:
    """The directory under which all files of a table are: of a pattern, the part before its first wildcard."""
    if not is_pattern(path):
        return path
    start = key_start(path)
    parts = path[start:].split("/")
    fixed = next(i for i, part in enumerate(parts) if is_pattern(part))
    return path[:start] + "/".join(parts[:fixed]) or ("/" if path.startswith("/") else ".")


def table_root(path: str, files: Files) -> str:
    """The directory below which names of directories may stand for columns."""
    status = files.status(root_of(path))
    is_file = status is not None and not status.is_directory
    return os.path.dirname(path) or "." if is_file else root_of(path)


def rejected_rows_path(path: str) -> str:
    """Where rows that could not be decoded are kept unless the table says so: beside the root, hidden from readers."""
    parent, name = os.path.split(os.path.abspath(root_of(path)))
    return os.path.join(parent, f"_{name}.rejected")


def find_files(path: str, files: Files, *, may_be_empty: bool) -> list[FileStatus]:
    """The files at a table's path in order of their paths, whatever its `PathPattern` says of them. Files of a commit that is
    under way, or broke off, are left out.

    UserError SS5002 when nothing is at the path, or a wildcard matches nothing and `may_be_empty` is false. ExternalError SS5072
    when files are replaced again and again.
    """
    found, uncommitted = _settled(path, files)
    if found is None or (not found and is_pattern(path) and not may_be_empty):
        raise UserError(
            "SS5002",
            f'no file matches "{path}"' if is_pattern(path) else f'there is no file or directory "{path}"',
            detail="" if os.path.isabs(path) or is_in_store(path) else f"looked in {os.getcwd()}",
            hint="check the option 'path'; a relative one starts where sqlstream was started",
        )
    return _without(uncommitted, found)


def _without(paths: Set[str], found: list[FileStatus] | None) -> list[FileStatus]:
    return [f for f in found or [] if os.path.normpath(f.path) not in paths]


def _settled(path: str, files: Files) -> tuple[list[FileStatus] | None, Set[str]]:
    """What is at the path, None for nothing, and the normalised paths of what is not committed, or replaced.

    A commit that begins and ends between two looks at the log may leave no trace there, and a listing may have a part of its
    files. So where a sink's files are that new, they are listed until two listings agree. Where files come faster than they are
    listed, the last one counts.
    """
    log = TableLog(root_of(path), files)
    since_ms = now_ms() - _CLOCKS_APART_MS_MAX
    after = log.view()
    earlier: list[str] | None = None
    for look in range(1, _LOOKS_MAX + 1):
        before = after
        found = _match(path, files) if is_pattern(path) else _list(path, files)
        after = log.view()
        # A commit may have begun while the files were listed.
        uncommitted = before.new | after.hidden
        kept = _without(uncommitted, found)
        paths = [f.path for f in kept]
        is_settled = not any(f.placed_ms >= since_ms and is_of_sink(f.path) for f in kept)
        is_known = is_settled or paths in (earlier, [path]) or look >= _AGREEING_MAX
        if is_known and not log.has_replaced(before, after):
            return found, uncommitted
        earlier = paths
    raise ExternalError("SS5072", f'could not list the files in "{path}": they are replaced again and again')


def pattern_below(directory: str, pattern: str) -> str:
    """The regular expression for paths below `directory` that `pattern` is for the same paths relative to it.

    >>> pattern_below("/a.b", "(?i)x/.*")
    '(?i)/a\\\\.b/(?:x/.*)'
    """
    flags = _FLAGS.match(pattern)
    first = flags.group() if flags is not None else ""
    return f"{first}{re.escape(os.path.join(directory, ''))}(?:{pattern[len(first) :]})"


def _list(path: str, files: Files) -> list[FileStatus] | None:
    status = files.status(path)
    if status is None:
        return None
    return list_if_there(path, files) if status.is_directory else [status]


def estimated_files(path: str, files: Files) -> list[FileStatus]:
    """The files at a table's path at one look, for estimates: those of a commit that is under way may be among them."""
    return (_match(path, files) if is_pattern(path) else _list(path, files)) or []


def _match(path: str, files: Files) -> list[FileStatus]:
    root = root_of(path)
    found: dict[str, FileStatus] = {}
    for match in files.match_glob(path):
        if any(is_hidden(part) for part in os.path.relpath(match, root).split(os.sep)):
            continue
        for status in _list(match, files) or []:
            found[status.path] = status
    return [found[name] for name in sorted(found)]


def partition_values(path: str, root: str) -> dict[str, str]:
    """The `key=value` directories between root and file.

    >>> partition_values("/t/day=2020-01-01/city=New%3AYork/part-0.csv", "/t")
    {'day': '2020-01-01', 'city': 'New:York'}
    """
    directories = os.path.relpath(os.path.dirname(path) or ".", root).split(os.sep)
    pairs = (directory.partition("=") for directory in directories if "=" in directory)
    return {urllib.parse.unquote(key): urllib.parse.unquote(value) for key, _, value in pairs}


def partition_directory(key: str, value: str) -> str:
    """Hive's name of a partition's directory, with unsafe characters as %XX.

    >>> partition_directory("city", "New:York")
    'city=New%3AYork'

    A dot that a column's name begins with would hide the directory from readers.

    >>> partition_directory(".city", "..")
    '%2Ecity=..'
    """
    name = _escape(key)
    return f"{name.replace('.', '%2E', 1) if name.startswith('.') else name}={_escape(value)}"


def _escape(text: str) -> str:
    return _UNSAFE_IN_NAME.sub(lambda m: f"%{ord(m.group()):02X}", text)


# The regular expression of a table's paths (`source.path.regex-pattern`).


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

    def among(self, found: Sequence[FileStatus]) -> list[FileStatus]:
        """The files that `may_match`."""
        is_wanted = self.may_match([file.path for file in found])
        return [file for file, wanted in zip(found, is_wanted, strict=True) if wanted]

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


def named_paths(options: Mapping[str, str], keys: tuple[str, ...]) -> tuple[str, ...]:
    """The files that options of these keys name, some several of them; those that go with the job have no path here."""
    parts = (part.strip() for key in keys for part in options.get(key, "").split(","))
    return tuple(part for part in parts if part and not part.startswith(ARTIFACT))


def with_absolute_paths(
    options: Mapping[str, str], keys: tuple[str, ...], directory: str
) -> Mapping[str, str]:
    """With paths from a directory in place of those from where the process is."""
    named = {
        key: ",".join(
            part if part.startswith(ARTIFACT) else absolute_path(key, part, directory)
            for part in map(str.strip, options[key].split(","))
        )
        for key in keys
        if key in options
    }
    return {**options, **named}
