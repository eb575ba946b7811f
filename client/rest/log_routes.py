"""Routes that serve the JobManager's log files."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Response
from fastapi.responses import FileResponse

from sqlstream.client.http_api.answers import json_answer, text_answer
from sqlstream.client.http_api.errors import RestError
from sqlstream.client.rest.info import ServerInfo
from sqlstream.client.rest.route import RestRoute


def log_routes(info: ServerInfo) -> APIRouter:
    """The files of the server's log directory: a list, one by name, and the newest."""
    router = APIRouter(route_class=RestRoute)

    @router.get("/jobmanager/logs")
    def logs() -> Response:
        return json_answer({"logs": [_log_entry(path) for path in _log_files(info)]})

    @router.get("/jobmanager/logs/{name}")
    def log(name: str) -> Response:
        # Only what the list shows is served, so that no name leads elsewhere.
        found = next((path for path in _log_files(info) if path.name == name), None)
        if found is None:
            raise RestError(404, f"The file {name[:100]} does not exist.")
        return _text(found)

    @router.get("/jobmanager/log")
    def newest_log() -> Response:
        files = sorted(_log_files(info), key=lambda path: path.stat().st_mtime)
        if not files:
            raise RestError(404, "The server keeps no log.")
        return _text(files[-1])

    @router.get("/jobmanager/stdout")
    def stdout() -> Response:
        return text_answer(info.printed())

    return router


def _text(path: Path) -> Response:
    return FileResponse(path, media_type="text/plain; charset=UTF-8")


def _log_files(info: ServerInfo) -> list[Path]:
    directory = info.log_directory
    if directory is None or not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if path.is_file() and not path.is_symlink())


def _log_entry(path: Path) -> dict[str, object]:
    status = path.stat()
    return {"name": path.name, "size": status.st_size, "mtime": int(status.st_mtime * 1000)}
