"""The stores that `high-availability.type` names."""

from __future__ import annotations

import dataclasses
import logging
import os
import re

from sqlstream.client.configuration import Configuration
from sqlstream.client.server.leaders.folder_store import FolderStore
from sqlstream.client.server.leaders.leadership import LeaseTimes, Stores
from sqlstream.client.server.leaders.record_store import RecordStore
from sqlstream.client.server.leaders.s3_store import S3Login, S3Store
from sqlstream.client.server.leaders.zookeeper_store import ZooKeeperOptions, ZooKeeperStore
from sqlstream.errors import UserError

logger = logging.getLogger(__name__)

PERIODS_A_LEASE = 5
LOOK_MAX_S = 1.0

_IDS = {"kubernetes": re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")}
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclasses.dataclass(frozen=True)
class Leaders:
    """Several servers of which one leads, with a store of this type. What is large lies in `place`, a directory or s3://…;
    `directory` is that directory, or empty."""

    type: str
    cluster_id: str
    place: str
    times: LeaseTimes

    @property
    def directory(self) -> str:
        return "" if self.place.startswith("s3://") else self.place


def leaders(configuration: Configuration) -> Leaders | None:
    """UserError SS4002 when what servers share is missing or no name can be made of their id."""
    kind: str = configuration.get("high-availability.type")
    if kind.upper() == "NONE":
        return None
    directory: str = configuration.get("high-availability.storageDir")
    cluster_id: str = configuration.get("high-availability.cluster-id")
    in_s3 = directory.startswith("s3://")
    bare = re.sub("^file:(//)?", "", directory)
    if not in_s3 and configuration.get("high-availability.secret-file"):
        raise UserError(
            "SS4002",
            'option "high-availability.secret-file" is for a high-availability.storageDir of s3://',
            hint="leave it out: servers that share a directory have authority and tokens there, readable by their user alone",
        )
    if not directory or (kind == "filesystem" and in_s3) or (kind == "s3" and not in_s3) or (
        "://" in bare and not in_s3
    ):  # fmt: skip
        wanted = {
            "filesystem": "a directory that all servers reach under the same path",
            "s3": "s3://bucket/path",
        }
        raise UserError(
            "SS4002",
            f'option "high-availability.storageDir" is "{directory}", but high-availability.type is {kind}',
            hint=f"give {wanted.get(kind, 'a directory that all servers reach, or s3://bucket/path')}",
        )
    if not in_s3 and not os.path.isabs(bare):
        raise UserError(
            "SS4002",
            f'option "high-availability.storageDir" is "{directory}", which is not the same directory for all servers',
            hint=f"give it whole: {os.path.abspath(bare)}",
        )
    if _IDS.get(kind, _ID).fullmatch(cluster_id) is None:
        characters = "small letters, digits and -" if kind in _IDS else "letters, digits, - and _"
        raise UserError(
            "SS4002",
            f'option "high-availability.cluster-id" is "{cluster_id}"',
            hint=f"take {characters}, 64 of them at most",
        )
    place = (
        f"{directory.rstrip('/')}/{cluster_id}" if in_s3 else os.path.join(os.path.normpath(bare), cluster_id)
    )
    return Leaders(kind, cluster_id, place, _times(configuration, kind))


def _times(configuration: Configuration, kind: str) -> LeaseTimes:
    lease_s = configuration.get("high-availability.lease-duration") / 1000
    if kind != "kubernetes":
        return LeaseTimes(lease_s, lease_s, min(LOOK_MAX_S, lease_s / PERIODS_A_LEASE))
    found = LeaseTimes(
        configuration.get("high-availability.kubernetes.leader-election.lease-duration") / 1000,
        configuration.get("high-availability.kubernetes.leader-election.renew-deadline") / 1000,
        configuration.get("high-availability.kubernetes.leader-election.retry-period") / 1000,
    )
    if found.period_s >= found.lease_s:
        raise UserError(
            "SS4002",
            "a server of Kubernetes that leads says so less often than others wait for it",
            hint="make high-availability.kubernetes.leader-election.retry-period shorter than lease-duration",
        )
    return found


def open_stores(found: Leaders, configuration: Configuration) -> Stores:
    """UserError or ExternalError when they cannot be used."""
    records = _records(found, configuration)
    try:
        return Stores(records, place_store(found, "large", configuration))
    except BaseException:
        records.close()
        raise


def _records(found: Leaders, configuration: Configuration) -> RecordStore:
    if found.type == "kubernetes":
        from sqlstream.client.server.leaders.kubernetes_store import KubernetesStore

        account: str = configuration.get("sqlstream.kubernetes.service-account")
        return KubernetesStore(account, found.cluster_id, found.times.lease_s)
    if found.type == "zookeeper":
        return ZooKeeperStore(_zookeeper(found, configuration))
    return place_store(found, "records", configuration)


def place_store(found: Leaders, name: str, configuration: Configuration) -> RecordStore:
    """That of this name in the place of what is large. UserError or ExternalError when it cannot be used."""
    path = f"{found.place}/{name}"
    if found.directory:
        return FolderStore(path)
    return S3Store(
        path,
        S3Login(
            configuration.get("s3.endpoint"),
            configuration.get("s3.endpoint.region"),
            configuration.get("s3.access-key"),
            configuration.get("s3.secret-key"),
        ),
    )


def _zookeeper(found: Leaders, configuration: Configuration) -> ZooKeeperOptions:
    quorum: str = configuration.get("high-availability.zookeeper.quorum")
    root: str = configuration.get("high-availability.zookeeper.path.root")
    if not quorum:
        raise UserError(
            "SS4002",
            'option "high-availability.zookeeper.quorum" is not set, but high-availability.type is zookeeper',
            hint="give the servers of ZooKeeper, such as zk1:2181,zk2:2181,zk3:2181",
        )
    if not re.fullmatch(r"(/[^/\s]+)+", root):
        raise UserError(
            "SS4002", f'option "high-availability.zookeeper.path.root" is "{root}"', hint="write one such as /flink"
        )  # fmt: skip
    logins: str = configuration.get("high-availability.zookeeper.client.authorization")
    pairs = tuple(
        (scheme, rest)
        for part in filter(None, logins.split(","))
        for scheme, _, rest in [part.partition(":")]
    )
    if any(not rest for _, rest in pairs):
        raise UserError(
            "SS4002",
            'option "high-availability.zookeeper.client.authorization" has no scheme',
            hint="write one such as digest:user:password",
        )
    acl: str = configuration.get("high-availability.zookeeper.client.acl")
    if acl == "creator" and not pairs:
        raise UserError(
            "SS4002",
            'option "high-availability.zookeeper.client.acl" is "creator", and nobody logs in',
            hint="set high-availability.zookeeper.client.authorization",
        )
    if acl == "open":
        logger.warning(
            "all users of ZooKeeper may read and change what this server keeps there, passwords of tables among it: "
            "set high-availability.zookeeper.client.acl to creator, and high-availability.zookeeper.client.authorization"
        )
    return ZooKeeperOptions(
        quorum,
        f"{root}/{found.cluster_id}/sqlstream",
        configuration.get("high-availability.zookeeper.client.session-timeout") / 1000,
        configuration.get("high-availability.zookeeper.client.connection-timeout") / 1000,
        acl,
        pairs,
    )
