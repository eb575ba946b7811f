"""docs/settings.md, and the table of options of a connector or format: what their declarations say, as markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlstream.config import OPTIONS, RENAMED
from sqlstream.config_option import ConfigOption, Scope
from sqlstream.options.flink_keys import flink_keys
from sqlstream.spi.connector import OptionDescriptor

_HEAD = """\
# Settings

Every option of sessions, jobs, clusters and servers, made from the declarations in [sqlstream/options/](../sqlstream/options).
`sqlstream config` prints them with the values in force; [server.md](server.md#settings) says where values come from. Options
of tables are on the pages of their connectors and formats.

Keys and defaults are Flink's where Flink has them. A duration is written as `200 ms`, `10 s`, `3 min` or `1 h`, a size as
`64 kb`, `128 mb` or `1 gb`. An unknown key and a value that does not fit are refused.
"""
_SET = "`SET 'key' = 'value';`, or at the start: `-D key=value`, an environment variable or `sqlstream.yaml`."
_SECTIONS = {
    Scope.SESSION: ("Statements", f"Read while a statement is planned. {_SET}"),
    Scope.JOB: ("Jobs", "Given like those of statements; a job keeps the values with which it starts."),
    Scope.CLIENT: ("Clients", "Read by the shell and other clients for how they show results."),
    Scope.CLUSTER: (
        "Clusters",
        "Read once, when a JobManager and its TaskManagers start: by `sqlstream server`, or by a command that has a "
        "cluster of its own. SET refuses them.",
    ),
    Scope.SERVER: ("Servers", "Read once, when `sqlstream server` starts. SET refuses them."),
}
_RENAMED = """\
## Keys with another name

A setting is taken by these keys too, with a note.

| key | name here |
| --- | --- |
"""
_ONE_VALUE = """\
## Taken with one value

Settings of Flink that would change results have here the one value by which nothing changes. Another value is refused; where none
is named, each is.

| key | value | because |
| --- | --- | --- |
"""
_WITHOUT_EFFECT = """\
## Taken without effect

Settings of Flink that change how fast it computes a result and never the result, and those of parts that are not here. They are
taken with a note that has the reason. `…` stands for the rest of a key. Those that promise encryption are refused.
"""


def settings_page() -> str:
    """The whole page, as markdown."""
    parts = [_HEAD]
    for scope, (title, sentence) in _SECTIONS.items():
        options = sorted((o for o in OPTIONS.values() if o.scope is scope), key=lambda o: o.key)
        parts.append(f"## {title}\n\n{sentence}\n\n{options_table(options)}")
    tuning = flink_keys().tuning.values()
    parts.append(_RENAMED + "".join(f"| `{old}` | `{new}` |\n" for old, new in sorted(RENAMED.items())))
    rows = [
        f"| `{o.key}` | {f'`{o.default}`' if o.default else 'none'} | {_cell(o.description)} |\n"
        for o in tuning
        if o.choices
    ]
    parts.append(_ONE_VALUE + "".join(rows))
    by_reason: dict[str, list[str]] = {}
    for option in tuning:
        if not option.choices:
            by_reason.setdefault(option.description, []).append(f"`{option.key}`")
    for begin, reason in flink_keys().begins.items():
        by_reason.setdefault(reason, []).append(f"`{begin}{'…' if begin[-1] in '.-' else ''}`")
    lines = [f"* {_cell(reason)}: {', '.join(keys)}\n" for reason, keys in by_reason.items()]
    parts.append(f"{_WITHOUT_EFFECT}\n{''.join(lines)}")
    return "\n".join(parts)


def options_table(options: Iterable[ConfigOption | OptionDescriptor], prefix: str = "") -> str:
    """The table of some options. `prefix` stands before each key: `options_table(CSV_OPTIONS, "csv.")`."""
    rows = [
        f"| `{prefix}{o.key}` | {o.type.value} | {_default(o)} | {_cell(' '.join(_meaning(o)))} |\n"
        for o in options
    ]
    return "| option | type | default | meaning |\n| --- | --- | --- | --- |\n" + "".join(rows)


def _default(option: ConfigOption | OptionDescriptor) -> str:
    if isinstance(option, OptionDescriptor) and option.is_required:
        return "required"
    return f"`{option.default}`" if option.default else "none"


def _meaning(option: ConfigOption | OptionDescriptor) -> Iterable[str]:
    yield option.description
    if len(option.choices) == 1:
        yield f"Only `{option.choices[0]}`."
    elif option.choices:
        yield f"One of {', '.join(f'`{choice}`' for choice in option.choices)}."
    low, high = option.minimum, option.maximum if isinstance(option, ConfigOption) else None
    if high is not None:
        yield f"From {_amount(option, low or 0)} to {_amount(option, high)}."
    elif low is not None and low > 1:
        # That a number of rows or a time is not negative is not worth a sentence.
        yield f"At least {_amount(option, low)}."


def _amount(option: ConfigOption | OptionDescriptor, value: float) -> str:
    if option.type.value == "Duration":
        return f"{value:g} ms"
    if option.type.value == "MemorySize":
        units = ((2**30, "gb"), (2**20, "mb"), (2**10, "kb"))
        return next(
            (f"{value / size:g} {unit}" for size, unit in units if value % size == 0), f"{value:g} bytes"
        )
    return f"{value:.15g}"


_KEY = re.compile(r"(?<![`'\w.])[a-z][a-zA-Z0-9]*(?:[.-][a-zA-Z0-9]+)+(?![`'\w(])")


def _cell(text: str) -> str:
    """The text in one cell, with the keys of options in it marked."""
    marked = _KEY.sub(lambda key: f"`{key[0]}`" if key[0] in OPTIONS else key[0], text)
    return marked.replace("|", "\\|").replace("\n", " ")
