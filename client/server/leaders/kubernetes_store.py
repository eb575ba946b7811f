"""Records in the API of Kubernetes: a Lease that shows who leads, and ConfigMaps."""

from __future__ import annotations

import base64
import contextlib
import datetime
import os
import ssl
from typing import Any, TypeVar

import httpx
import msgspec

from sqlstream.client.server.leaders.fenced_records import LEADER, LeaderRecord
from sqlstream.client.server.leaders.record_store import Conflict, Record
from sqlstream.errors import ExternalError, UserError, reason_of_error

BYTES_MAX = 1_000_000
"""A ConfigMap has 1 MiB."""

_TIMEOUT_S = 10.0
_NOTE = "sqlstream.io/record"
_CLUSTER = "sqlstream.io/cluster"
_PAGE = 500
_NAMES_ALONE = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
"""A list of objects without what is in them, which could be hundreds of MB."""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = {}
    following: str = msgspec.field(default="", name="continue")


class _Object(msgspec.Struct, frozen=True, rename="camel"):
    """A Lease or a ConfigMap, whose bytes are in base64."""

    metadata: _Metadata
    binary_data: dict[str, bytes] = {}


class _Named(msgspec.Struct, frozen=True):
    metadata: _Metadata


class _Page(msgspec.Struct, frozen=True):
    metadata: _Metadata
    items: tuple[_Named, ...] | None = None


class _Status(msgspec.Struct, frozen=True):
    message: str = ""


Answer = TypeVar("Answer")


class KubernetesStore:
    """A record is a ConfigMap, `leader` a Lease that has it as an annotation; a version is the `resourceVersion`, which the API
    compares when it replaces an object. Asks as the service account of this pod. Implements `RecordStore`. State: connections."""

    bytes_max = BYTES_MAX

    def __init__(self, account: str, cluster_id: str, lease_s: float) -> None:
        """`account` is the directory of the service account. UserError SS6083 where there is none."""
        self._account, self._cluster_id, self._lease_s = account, cluster_id, lease_s
        host, port = (os.environ.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
        try:
            if not host:
                raise FileNotFoundError("the variable KUBERNETES_SERVICE_HOST is not set")
            namespace = self._word("namespace")
            trust = ssl.create_default_context(cafile=os.path.join(account, "ca.crt"))
        except OSError as error:
            raise UserError(
                "SS6083",
                f"this is no pod with a service account of Kubernetes: {reason_of_error(error)}",
                hint="run the server in a pod, whose service account may change leases and configmaps",
            ) from error
        bracketed = f"[{host}]" if ":" in host else host
        self._place = f"https://{bracketed}:{port or 443}"
        self._client = httpx.Client(
            base_url=self._place, verify=trust, timeout=_TIMEOUT_S, trust_env=False, follow_redirects=False
        )
        self._maps = f"/api/v1/namespaces/{namespace}/configmaps"
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"

    def read(self, key: str) -> Record | None:
        found = self._asked(_Object, "GET", self._path(key), absent=(404,))
        if found is None:
            return None
        try:
            is_lease, meta = key == LEADER, found.metadata
            data = base64.b64decode(meta.annotations[_NOTE]) if is_lease else found.binary_data["record"]
        except (KeyError, ValueError) as error:
            raise _unreadable(error) from error
        return Record(data, meta.resource_version)

    def write(self, key: str, data: bytes, expected: str | None) -> str:
        made = self._lease(data) if key == LEADER else self._map(data)
        name, path = self._name(key), self._path(key)
        made["metadata"] |= {"name": name, "labels": {_CLUSTER: self._cluster_id, "app": "sqlstream"}}
        if expected is not None:
            made["metadata"]["resourceVersion"] = expected
        method, place = ("POST", path.removesuffix(f"/{name}")) if expected is None else ("PUT", path)
        kept = self._asked(_Object, method, place, made, absent=(404, 409))
        if kept is None:
            raise Conflict
        return kept.metadata.resource_version

    def remove(self, key: str) -> None:
        self._asked(_Status, "DELETE", self._path(key), absent=(404,))

    def keys(self) -> list[str]:
        found: list[str] = []
        words = {"labelSelector": f"{_CLUSTER}={self._cluster_id}", "limit": str(_PAGE)}
        while (page := self._asked(_Page, "GET", self._maps, query=words)) is not None:
            found += [item.metadata.name.removeprefix(self._name("")) for item in page.items or ()]
            if not page.metadata.following:
                break
            words["continue"] = page.metadata.following
        return found

    def close(self) -> None:
        self._client.close()

    # --- objects

    def _name(self, key: str) -> str:
        return f"sqlstream-{self._cluster_id}-{key}"

    def _path(self, key: str) -> str:
        return f"{self._leases if key == LEADER else self._maps}/{self._name(key)}"

    def _lease(self, data: bytes) -> dict[str, Any]:
        """Shows to people who leads; what counts is the annotation."""
        record = msgspec.msgpack.decode(data, type=LeaderRecord)
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"annotations": {_NOTE: base64.b64encode(data).decode()}},
            "spec": {
                "holderIdentity": "" if record.is_released else record.holder,
                "leaseDurationSeconds": max(1, round(self._lease_s)),
                "leaseTransitions": record.epoch,
                "renewTime": now,
            },
        }

    def _map(self, data: bytes) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {},
            "binaryData": {"record": base64.b64encode(data).decode()},
        }

    # --- requests

    def _asked(
        self,
        kind: type[Answer],
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        absent: tuple[int, ...] = (),
        query: dict[str, str] | None = None,
    ) -> Answer | None:
        """The answer; None for one of these statuses. ExternalError SS6080 for any other that is no success, SS6081 for an answer
        of another kind."""
        try:
            # It is renewed from time to time.
            headers = {"Authorization": f"Bearer {self._word('token')}"}
            if kind is _Page:
                headers["Accept"] = _NAMES_ALONE
            answer = self._client.request(method, path, json=body, headers=headers, params=query)
        except (httpx.HTTPError, OSError) as error:
            raise ExternalError("SS6080", f'"{self._place}" does not answer: {error}') from error
        if answer.status_code in absent:
            return None
        if not answer.is_success:
            text = ""
            with contextlib.suppress(ValueError):
                text = msgspec.json.decode(answer.content, type=_Status).message
            raise ExternalError(
                "SS6080", f'"{self._place}{path}" answers {method} with status {answer.status_code}', detail=text
            )  # fmt: skip
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except ValueError as error:
            raise _unreadable(error) from error

    def _word(self, name: str) -> str:
        with open(os.path.join(self._account, name), encoding="utf-8") as stream:
            return stream.read().strip()


def _unreadable(error: Exception) -> ExternalError:
    return ExternalError("SS6081", f"an object of Kubernetes is not as a server wrote it: {error!r}")
