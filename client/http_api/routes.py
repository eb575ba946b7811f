"""Routes of one router in another. FastAPI's `include_router` builds each route once more, which is most of a server's start."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, compile_path


def add_routes(target: FastAPI | APIRouter, routes: Iterable[BaseRoute]) -> None:
    """The same routes, behind those that are there."""
    router = target.router if isinstance(target, FastAPI) else target
    router.routes.extend(routes)


def at_other_path(route: APIRoute, path: str) -> APIRoute:
    """What a route answers, under another path with the same parameters, which the OpenAPI document does not list."""
    other = copy.copy(route)
    other.path, other.include_in_schema = path, False
    other.path_regex, other.path_format, other.param_convertors = compile_path(path)
    return other
