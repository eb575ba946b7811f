"""The names of a session in this process, for completion."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlstream.catalog import CatalogTable, ObjectPath
from sqlstream.client.completion.candidates import Name, OptionName
from sqlstream.config import OPTIONS
from sqlstream.config_option import ConfigOption, ConfigType
from sqlstream.errors import SqlStreamError
from sqlstream.spi.format import FORMAT_KEYS

if TYPE_CHECKING:
    from sqlstream.client.sessions.session import Session
    from sqlstream.spi.connector import OptionDescriptor

_PATH_PARTS = 3
_FORMATS_OF = dict(
    zip(
        FORMAT_KEYS,
        (
            "the format of the rows",
            "the format of the values of messages",
            "the format of the keys of messages",
        ),
        strict=True,
    )
)


class SessionVocabulary:
    """Implements `Vocabulary` on the session's catalog as it is when this object is made. `jobs` lists those of its cluster;
    `names_files`: paths may be completed."""

    def __init__(
        self, session: Session, jobs: Callable[[], Sequence[Name]] = tuple, names_files: bool = True
    ) -> None:
        self._files = session.files() if names_files else None
        self._context = session.bind_context()
        self._jobs = jobs

    def catalogs(self) -> Sequence[str]:
        return self._context.catalog.catalogs()

    def databases(self, catalog: str) -> Sequence[str]:
        with contextlib.suppress(SqlStreamError):
            return self._context.catalog.databases(catalog or self._context.current_catalog)
        return ()

    def tables(self, catalog: str, database: str) -> Sequence[Name]:
        context = self._context
        path = (catalog or context.current_catalog, database or context.current_database)
        with contextlib.suppress(SqlStreamError):
            entries = context.catalog.list(*path)
            return [Name(e.path.name, "table" if isinstance(e, CatalogTable) else "view") for e in entries]
        return ()

    def columns(self, path: tuple[str, ...]) -> Sequence[Name]:
        from sqlstream.planner.bind.relations.tables import find_side_table

        if not 1 <= len(path) <= _PATH_PARTS:
            return ()
        current = (self._context.current_catalog, self._context.current_database)
        with contextlib.suppress(SqlStreamError):
            full = ObjectPath(*current[: _PATH_PARTS - len(path)], *path)
            found = find_side_table(full, self._context, None) or self._context.catalog.get(full)
            return [Name(f.name, str(f.type)) for f in found.schema.fields] if found is not None else ()
        return ()

    def files(self, prefix: str) -> Sequence[Name]:
        from sqlstream.runtime.inference.file_inference import paths_after

        if self._files is not None:
            with contextlib.suppress(SqlStreamError):
                return [Name(path, kind) for path, kind in paths_after(prefix, self._files)]
        return ()

    def functions(self) -> Sequence[Name]:
        from sqlstream.planner.bind.expressions.user_functions import FunctionCatalog

        context = self._context
        own: Sequence[Name] = ()
        with contextlib.suppress(SqlStreamError):
            found = FunctionCatalog(context.catalog, None).visible(
                context.current_catalog, context.current_database
            )
            own = [Name(f.path.name, f.ref.usage) for f in found]
            own += [Name(name, "") for name in (context.installed.names() if context.installed else ())]
        return [*_functions(), *own]

    def settings(self) -> Sequence[OptionName]:
        return [_setting(o) for o in OPTIONS.values() if o.scope.is_settable]

    def connectors(self) -> Sequence[str]:
        return sorted(i for i, d in self._context.connectors.items() if not d.is_internal)

    def formats(self) -> Sequence[str]:
        return sorted(self._context.formats)

    def models(self) -> Sequence[str]:
        context = self._context
        with contextlib.suppress(SqlStreamError):
            found = context.catalog.models(context.current_catalog, context.current_database)
            return [model.path.name for model in found]
        return []

    def table_options(self, given: Mapping[str, str]) -> Sequence[OptionName]:
        from sqlstream.planner.bind.relations.table_options import format_keys, formats_of, own_options

        found = [OptionName("connector", "the connector of the table")]
        connectors, formats = self._context.connectors, self._context.formats
        connector = given.get("connector", "")
        named: dict[str, set[str]] = {}
        for descriptor in [connectors[connector]] if connector in connectors else connectors.values():
            if not descriptor.is_internal:
                found += [_option(o) for o in own_options(descriptor)]
                for key in format_keys(descriptor):
                    named.setdefault(key, set()).update(formats_of(descriptor, self._context, key))
        names_values = bool(given.keys() & set(FORMAT_KEYS[:2]))
        for key, choices in named.items():
            if key not in FORMAT_KEYS[:2] or not names_values:
                found.append(OptionName(key, _FORMATS_OF[key], tuple(sorted(choices))))
            of_key = given.get(key, "")
            all_formats = formats if not connector and key == "format" else ()
            for identifier in [of_key] if of_key in formats else all_formats:
                prefix = f"{key.removesuffix('format')}{identifier}."
                found += [_option(o, prefix) for o in formats[identifier].options]
        return list({o.key: o for o in found}.values())

    def jobs(self) -> Sequence[Name]:
        return self._jobs()


@functools.cache
def _functions() -> tuple[Name, ...]:
    from sqlstream.functions import CALLABLE
    from sqlstream.functions.placed import PLACED

    return tuple(Name(name, function.usage) for name, function in sorted((PLACED | CALLABLE).items()))


def _setting(option: ConfigOption) -> OptionName:
    choices = ("true", "false") if option.type is ConfigType.BOOLEAN else option.choices
    return OptionName(option.key, option.description, choices)


def _option(option: OptionDescriptor, prefix: str = "") -> OptionName:
    choices = ("true", "false") if option.type.name == "BOOLEAN" else option.choices
    return OptionName(prefix + option.key, option.description, choices)
