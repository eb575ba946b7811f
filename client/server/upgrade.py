"""What of a data directory this release takes over: jobs, savepoints, catalogs and tokens."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import msgspec

from sqlstream import __version__
from sqlstream.client.catalog import stored
from sqlstream.client.catalog.catalogs import DEFAULT_DIRECTORY, STORE_DIRECTORY
from sqlstream.client.catalog.definition_files import read_definition
from sqlstream.client.server.backup import KeptPlace
from sqlstream.client.server.job_checkpoint_stores import JobCheckpointStores
from sqlstream.client.server.job_store import OtherVersion, read_graph
from sqlstream.client.server.kept_file import DamagedFile
from sqlstream.client.server.leaders.copied_records import holder
from sqlstream.client.server.place_formats import check_formats, put_formats
from sqlstream.client.server.tokens import TOKENS_FILE, Tokens
from sqlstream.errors import ErrorInfo, SqlStreamError, UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.runtime.checkpoint.checkpoint_directory import load_checkpoint
from sqlstream.runtime.checkpoint.checkpoint_store import checkpoint_files
from sqlstream.runtime.jobmanager.checkpoints.restored_state import restorable_checkpoint

KEPT, RECOMPUTED, REFUSED = "kept", "recomputed", "refused"


class Finding(msgspec.Struct, frozen=True):
    """`verdict` of one thing: it is KEPT as it is, RECOMPUTED (a job runs from its beginning, a file is written anew), or REFUSED
    by this release, for `reason`."""

    kind: str
    name: str
    verdict: str
    reason: str = ""


def findings(place: KeptPlace, savepoints: tuple[str, ...], config: Mapping[str, str]) -> tuple[Finding, ...]:
    """Nothing is changed. SqlStreamError when the directory cannot be read."""
    try:
        found = check_formats(place.root)
    except SqlStreamError as error:
        return (Finding("directory", place.root, REFUSED, _said(error)),)
    before = (
        f"used by sqlstream {found.release}"
        if found is not None
        else "without numbers of formats: they are added"
    )
    return (
        Finding("directory", place.root, KEPT, before),
        *_jobs(place),
        *_savepoints(savepoints, config),
        *_catalogs(place),
        *_tokens(place),
    )


def _jobs(place: KeptPlace) -> Iterator[Finding]:
    with place.fenced() as fenced:
        yield from _jobs_in(os.path.join(fenced, "jobs"), place)


def _jobs_in(directory: str, place: KeptPlace) -> Iterator[Finding]:
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
        job_id, suffix = os.path.splitext(name)
        if suffix != ".job":
            continue
        try:
            graph = read_graph(os.path.join(directory, name))
        except (OtherVersion, DamagedFile) as error:
            yield Finding("job", job_id, REFUSED, str(error))
            continue
        verdict, reason = _job(graph, place, os.path.exists(os.path.join(directory, f"{job_id}.saved")))
        yield Finding("job", f"{job_id} {graph.name}", verdict, reason)


def _job(graph: JobGraph, place: KeptPlace, had_checkpoint: bool) -> tuple[str, str]:
    stores = JobCheckpointStores(place.checkpoints)
    if graph.is_query:
        return RECOMPUTED, "a query is lost with the server that it runs on"
    if not (directory := stores.directory_of(graph)):
        return RECOMPUTED, "it takes no checkpoints, and runs from its beginning"
    try:
        newest = stores.newest(graph)
        if newest is None:
            if had_checkpoint:
                return REFUSED, f'it has had checkpoints in "{directory}", and none is there'
            return RECOMPUTED, "it has no checkpoint yet, and runs from its beginning"
        restorable_checkpoint(newest, graph, is_owned=True, ignores_unclaimed=False)
    except SqlStreamError as error:
        return REFUSED, _said(error)
    return KEPT, f'goes on from "{newest.path}"'


def _savepoints(paths: tuple[str, ...], config: Mapping[str, str]) -> Iterator[Finding]:
    for path in paths:
        try:
            found = load_checkpoint(checkpoint_files(path, config), path)
            yield Finding("savepoint", path, KEPT, f"of {found.manifest.job_name}")
        except SqlStreamError as error:
            yield Finding("savepoint", path, REFUSED, _said(error))


def _catalogs(place: KeptPlace) -> Iterator[Finding]:
    with place.fenced() as fenced:
        for found in _catalogs_in(os.path.join(fenced, "catalog")):
            yield msgspec.structs.replace(found, name=found.name.replace(fenced, place.root, 1))


def _catalogs_in(root: str) -> Iterator[Finding]:
    damaged, count = [], 0
    for directory, names, files in os.walk(root):
        names.sort()
        for name in sorted(files):
            if not name.endswith(".json") or name.startswith("."):
                continue
            path = os.path.join(directory, name)
            count += 1
            try:
                stored.decode(read_definition(path), _kind(os.path.relpath(path, root)))
            except stored.DamagedDefinition as error:
                damaged.append(Finding("catalog", path, REFUSED, str(error)))
            except SqlStreamError as error:
                damaged.append(Finding("catalog", path, REFUSED, _said(error)))
    yield from damaged
    yield Finding("catalog", root, KEPT, f"{count - len(damaged)} definitions")


def _kind(path: str) -> type[stored.CatalogHead]:
    """What a file of a catalog holds, by its place."""
    found: object = stored.StoredTable | stored.StoredView
    if path.startswith(STORE_DIRECTORY + os.sep):
        found = stored.StoredCatalog
    elif path == os.path.join(DEFAULT_DIRECTORY, "catalog.json"):
        found = stored.CatalogHead
    elif path.endswith(os.sep + "database.json"):
        found = stored.StoredDatabase
    elif os.path.basename(os.path.dirname(path)) == "functions":
        found = stored.StoredFunction
    return found  # type: ignore[return-value]


def _tokens(place: KeptPlace) -> Iterator[Finding]:
    path = os.path.join(place.root, TOKENS_FILE)
    if not os.path.exists(path):
        return
    tokens = Tokens(place.root)
    try:
        count = len(tokens.all())
    except SqlStreamError as error:
        yield Finding("tokens", path, REFUSED, _said(error))
        return
    counted = f"{count} {'token' if count == 1 else 'tokens'}"
    if tokens.is_of_this_release:
        yield Finding("tokens", path, KEPT, counted)
    else:
        yield Finding("tokens", path, RECOMPUTED, f"{counted}, written as sqlstream {__version__} does")


def check_unused(place: KeptPlace) -> None:
    """UserError SS4010 while one of several servers leads, or has not been stopped in order: the lock of a data directory is not
    theirs."""
    leading = holder(place.stores) if place.stores is not None else ""
    if leading:
        raise UserError(
            "SS4010", f'the server "{leading}" leads', hint="stop it and those that wait, with SIGTERM"
        )


def take_over(place: KeptPlace) -> None:
    """Write anew what is of an earlier format. Only while no server uses the place, and after a backup."""
    put_formats(place.root)
    tokens = Tokens(place.root)
    if os.path.exists(os.path.join(place.root, TOKENS_FILE)) and not tokens.is_of_this_release:
        tokens.write_anew()


def _said(error: SqlStreamError) -> str:
    found = ErrorInfo.of(error)
    return f"{found.code}: {found.message}" + (f"; {found.hint}" if found.hint else "")
