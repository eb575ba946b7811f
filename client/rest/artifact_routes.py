"""Routes by which files that go with jobs are uploaded, in parts."""

from __future__ import annotations

import re
from typing import Annotated, TypedDict

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool

from sqlstream.client.http_api.answers import read_body
from sqlstream.client.http_api.errors import BAD_REQUEST, NOT_FOUND, RestError
from sqlstream.client.rest import route
from sqlstream.client.rest.cluster_view import ClusterView
from sqlstream.graph.artifacts import FILE_BYTES_MAX, NAME_CHARACTERS_MAX, PART_BYTES, Artifact

_DIGEST = re.compile(r"[0-9a-f]{64}")
_Bytes = Annotated[int, Query(ge=0, le=FILE_BYTES_MAX)]
_Name = Annotated[str, Query(max_length=NAME_CHARACTERS_MAX)]


class Held(TypedDict):
    """How many bytes of a file are there, and whether these are all."""

    bytes: int
    complete: bool


def artifact_routes(view: ClusterView) -> APIRouter:
    router = APIRouter(route_class=route.RestRoute)

    @router.get("/artifacts/{digest}")
    def held(digest: str) -> Held:
        size = view.cluster.artifact_size(_checked(digest))
        if size is None:
            raise RestError(NOT_FOUND, f"There is no file with the digest {digest}.")
        return {"bytes": size, "complete": True}

    @router.put("/artifacts/{digest}")
    async def add(digest: str, request: Request, size: _Bytes, offset: _Bytes = 0, name: _Name = "") -> Held:
        # Errors name it so.
        artifact = Artifact(name or digest[:12], _checked(digest), size)
        data = await read_body(request, PART_BYTES)
        there = await run_in_threadpool(view.cluster.add_artifact_part, artifact, offset, data)
        return {"bytes": there, "complete": there == size}

    return router


def _checked(digest: str) -> str:
    if _DIGEST.fullmatch(digest) is None:
        raise RestError(
            BAD_REQUEST, f'"{digest[:100]}" is no SHA-256: give 64 hexadecimal digits in small letters.'
        )
    return digest
