"""`sqlstream config`: every option with its value and where it comes from."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from sqlstream.client.arguments import add_configuration_arguments, configuration_of
from sqlstream.errors import UserError, did_you_mean

_HINT = "sqlstream config lists all options, and sqlstream config execution those that begin so"

EPILOG = """\
examples:
  sqlstream config
  sqlstream config rest sqlstream.data-dir
  sqlstream config --json | jq '.[] | select(.origin != "default")'

A value is taken from the first of: -D KEY=VALUE, the environment (SQLSTREAM_ and the key in capitals with _ for . and -; a
leading `sqlstream.` is left out), sqlstream.yaml, the default. sqlstream.yaml is that of --config or $SQLSTREAM_CONFIG, else
it is looked for in $SQLSTREAM_CONF_DIR, the present directory and ~/.config/sqlstream.

SET takes options of the scopes SESSION, JOB and CLIENT; those of CLUSTER and SERVER are given where these start.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("keys", nargs="*", metavar="KEY", help="an option, or the first words of several")
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    add_configuration_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    from sqlstream import config

    configuration = configuration_of(arguments)
    keys = chosen_keys(arguments.keys, sorted(config.OPTIONS))
    rows = [describe(configuration, key) for key in keys]
    if arguments.json:
        import json

        print(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        _print_table(rows)
    for note in configuration.notes:
        print(note, file=sys.stderr)
    return 0


def chosen_keys(words: list[str], keys: list[str]) -> list[str]:
    """The options of these names, and those whose names begin with them up to a dot. UserError SS4001 for none."""
    chosen: dict[str, None] = {}
    for word in words or [""]:
        found = [k for k in keys if not word or k == word or k.startswith(word.removesuffix(".") + ".")]
        if not found:
            raise UserError("SS4001", f'unknown option "{word}"', hint=did_you_mean(word, keys) or _HINT)
        chosen |= dict.fromkeys(found)
    return list(chosen)


def describe(configuration: Any, key: str) -> dict[str, str]:
    """One option as text; secrets are masked."""
    from sqlstream import config
    from sqlstream.secrets import masked

    option, setting = config.option(key), configuration.setting(key)
    return {
        "key": key,
        "value": masked(key, setting.value) if setting.value else "",
        "default": option.default,
        "origin": setting.origin.value,
        "place": setting.place,
        "scope": option.scope.value,
        "type": option.type.value,
        "description": option.description,
    }


def _print_table(rows: list[dict[str, str]]) -> None:
    import pyarrow as pa

    from sqlstream import types as sql
    from sqlstream.client.rendering.render import make_renderer
    from sqlstream.client.rendering.tables import Look
    from sqlstream.client.rendering.terminal import columns_of
    from sqlstream.schema import Schema

    names = ("key", "value", "default", "origin", "scope", "description")
    texts = [{**r, "origin": r["place"] or r["origin"]} for r in rows]
    schema = Schema.of(*((name, sql.STRING) for name in names))
    renderer = make_renderer("table", Look(schema, columns=columns_of(sys.stdout)), with_op=False, wraps=True)
    renderer.write(pa.RecordBatch.from_arrays([pa.array([r[n] for r in texts]) for n in names], names=names))
    renderer.finish()
