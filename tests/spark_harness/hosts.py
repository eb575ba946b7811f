"""Hosts of a network on this machine: each has an address, a name, a network and a /tmp of its own, and shares /mnt with the
others. They need root, since Linux lets nobody else make networks."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

SHARED = Path("/mnt")
"""The directory of all hosts, as from a file server."""

_NETWORK = "10.77.0"
_CLONE_NEWNET = 0x40000000
_TOOLS = ("ip", "tc", "unshare", "nsenter", "setpriv")
_START_TIMEOUT_S = 60.0

_SWITCH = "ip link add br0 type bridge && ip link set br0 up && echo ready && exec cat"
_HOST = """
set -e
hostname "$1"
mount --bind "$2" /etc/hosts
mount --bind "$3" /mnt
mount --bind "$4" /tmp
ip link set lo up
echo ready
exec cat
"""


def why_there_are_no_hosts() -> str:
    """What keeps this machine from having them, for a test that is skipped; empty when nothing does."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if os.geteuid() != 0:
        return "several hosts: only root can make networks"
    if missing:
        return f"several hosts: {', '.join(missing)} is missing (Debian: apt-get install iproute2 util-linux)"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "ip", "link", "add", "br0", "type", "bridge"],
        capture_output=True,
        text=True,
        timeout=_START_TIMEOUT_S,
    )
    return f"several hosts: this system makes no networks: {tried.stderr.strip()}" if tried.returncode else ""


class Host:
    """A host by its `name`. Implements `Place`. Its namespaces last as long as the process that holds them."""

    def __init__(self, name: str, address: str, directory: Path, holder: subprocess.Popen[bytes]) -> None:
        self.name = name
        self.address = address
        self.own_tmp = directory
        """Its /tmp, as this process sees it."""
        self._holder = holder
        self._network_id = os.stat(self._network).st_ino

    def command(self, words: Sequence[str]) -> list[str]:
        # It ends with the process that runs it, as does what it starts.
        alone = ["setpriv", "--pdeathsig", "KILL", "--"]
        entered = ["nsenter", "-t", str(self._holder.pid), "-n", "-m", "-u", "--"]
        # Its temporary files are its own.
        return [*alone, *entered, "env", "-u", "TMPDIR", *words]

    def within(self, directory: str | Path, words: Sequence[str]) -> list[str]:
        """As `command`, in a directory that only hosts may have."""
        return self.command(["env", "-C", str(directory), *words])

    @contextlib.contextmanager
    def network(self) -> Iterator[None]:
        """The network of the calling thread is this host's: sockets that it makes here stay there."""
        ours = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        theirs = os.open(self._network, os.O_RDONLY)
        try:
            _set_network(theirs)
            try:
                yield
            finally:
                _set_network(ours)
        finally:
            os.close(ours)
            os.close(theirs)

    def processes(self) -> list[psutil.Process]:
        """All but the one that holds the host."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{process.pid}/ns/net").st_ino == self._network_id:
                    found.append(process)
        return [p for p in found if p.pid != self._holder.pid]

    @property
    def _network(self) -> str:
        return f"/proc/{self._holder.pid}/ns/net"


class Hosts:
    """Hosts of these names, connected by a switch, from `with` to its end, when all of their processes are killed. The
    namespaces end with the processes that hold them, and these with this process."""

    def __init__(self, directory: Path, *names: str) -> None:
        self._directory = directory
        self._names = names
        self._holders: list[subprocess.Popen[bytes]] = []
        self._hosts: dict[str, Host] = {}
        self.shared = directory / "shared"
        """SHARED, as this process sees it."""

    def __enter__(self) -> Hosts:
        self.shared.mkdir()
        addresses = {name: f"{_NETWORK}.{n}" for n, name in enumerate(self._names, 1)}
        table = self._directory / "hosts"
        table.write_text("127.0.0.1 localhost\n" + "".join(f"{a} {n}\n" for n, a in addresses.items()))
        try:
            self._switch = self._hold(["--net"], _SWITCH)
            for name, address in addresses.items():
                self._hosts[name] = self._add(name, address, table)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *ignored: object) -> None:
        for host in self._hosts.values():
            for process in host.processes():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        for holder in self._holders:
            holder.kill()
            holder.wait()

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def __iter__(self) -> Iterator[Host]:
        return iter(self._hosts.values())

    def cut(self, name: str) -> None:
        """Pull the host's plug out of the switch: packets are lost without an answer."""
        self._at_switch("ip", "link", "set", name, "down")

    def mend(self, name: str) -> None:
        self._at_switch("ip", "link", "set", name, "up")

    def slow_down(self, name: str, rate: str = "1mbit", queue: str = "8kb") -> None:
        """Let no more than `rate` reach the host, and lose what is longer than `queue` in front of it."""
        words = ["tbf", "rate", rate, "burst", "4kb", "limit", queue]
        self._at_switch("tc", "qdisc", "replace", "dev", name, "root", *words)

    def speed_up(self, name: str) -> None:
        self._at_switch("tc", "qdisc", "del", "dev", name, "root")

    def part(self, one: str, two: str) -> None:
        """Two hosts do not reach each other, but all others do."""
        self._route("add", one, two)

    def join(self, one: str, two: str) -> None:
        self._route("del", one, two)

    def _route(self, what: str, one: str, two: str) -> None:
        for host, other in ((self[one], self[two]), (self[two], self[one])):
            _run(*host.command(["ip", "route", what, "blackhole", f"{other.address}/32"]))

    def _add(self, name: str, address: str, table: Path) -> Host:
        own = self._directory / name
        own.mkdir()
        words = [name, str(table), str(self.shared), str(own)]
        holder = self._hold(["--net", "--mount", "--uts"], _HOST, *words)
        ends = [
            "netns",
            str(holder.pid),
            "type",
            "veth",
            "peer",
            "name",
            name,
            "netns",
            str(self._switch.pid),
        ]
        _run("ip", "link", "add", "eth0", *ends)
        self._at_switch("ip", "link", "set", name, "master", "br0", "up")
        host = Host(name, address, own, holder)
        _run(*host.command(["ip", "addr", "add", f"{address}/24", "dev", "eth0"]))
        _run(*host.command(["ip", "link", "set", "eth0", "up"]))
        return host

    def _hold(self, kinds: list[str], script: str, *words: str) -> subprocess.Popen[bytes]:
        """A process with namespaces of its own, which ends with this process: its standard input is a pipe from here."""
        holder = subprocess.Popen(
            ["unshare", *kinds, "sh", "-c", script, "sh", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
        )
        self._holders.append(holder)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        return holder

    def _at_switch(self, *words: str) -> None:
        _run("nsenter", "-t", str(self._switch.pid), "-n", *words)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=_START_TIMEOUT_S)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"


def _set_network(descriptor: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(descriptor, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
