"""TaskManagers on hosts that are reached by ssh: started, asked about and ended, on all of them at once."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sqlstream.errors import UserError

AT_ONCE_MAX = 32
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
TIMEOUT_S = 60.0

_HOST = re.compile(r"[A-Za-z0-9_.@:\[\]-]+")
_DIRECTORY = '"${XDG_STATE_HOME:-$HOME/.local/state}/sqlstream/taskmanager"'

# Each script begins with what finds the process of an earlier call: a pid that another process has since has other words.
_FIND = f"""
set -eu
umask 077
mkdir -p {_DIRECTORY} && cd {_DIRECTORY}
running=
if [ -f pid ] && grep -qz taskmanager "/proc/$(cat pid)/cmdline" 2>/dev/null; then running=$(cat pid); fi
"""

_UP = """
if [ -n "$running" ]; then echo "runs already (process $running)"; exit 0; fi
cat > join-token
touch taskmanager.log
before=$(wc -c < taskmanager.log)
nohup setsid {command} taskmanager --join {join} --token-file join-token {more} >> taskmanager.log 2>&1 < /dev/null &
echo $! > pid
said=", which has not joined yet"
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  if ! kill -0 "$(cat pid)" 2>/dev/null; then
    tail -c "+$((before + 1))" taskmanager.log | grep -v -e '^note: ' -e '^$' | head -n 1 >&2; exit 1
  fi
  if tail -c "+$((before + 1))" taskmanager.log | grep -q " joins "; then said=; break; fi
  sleep 1
done
echo "started (process $(cat pid)$said), log $(pwd)/taskmanager.log"
"""

_DOWN = """
if [ -z "$running" ]; then rm -f pid join-token; echo "does not run"; exit 0; fi
kill "$running"
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do kill -0 "$running" 2>/dev/null || break; sleep 1; done
kill -9 "$running" 2>/dev/null && echo "killed (process $running)" || echo "ended (process $running)"
rm -f pid join-token
"""

_STATUS = 'if [ -n "$running" ]; then echo "runs (process $running)"; else echo "does not run"; exit 3; fi\n'


@dataclass(frozen=True)
class Host:
    """`name` as ssh takes it; `slots` are those of the file, None for one a core."""

    name: str
    slots: int | None = None


@dataclass(frozen=True)
class Answer:
    """What a host has said in one line, and whether it did what it was asked."""

    host: str
    text: str
    is_done: bool


def parse_hosts(text: str, path: str) -> tuple[Host, ...]:
    """A host a line, `[user@]name [slots]`; # begins a remark. UserError SS4084 with the line that is none.

    >>> parse_hosts("worker1 4  # the large one\\n\\nme@worker2\\n", "hosts.txt")
    (Host(name='worker1', slots=4), Host(name='me@worker2', slots=None))
    """
    found: dict[str, Host] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        slots = words[1] if len(words) == 2 else ""
        is_right = _HOST.fullmatch(words[0]) and not words[0].startswith("-") and len(words) <= 2
        if not is_right or (slots and not (slots.isdecimal() and 0 < int(slots) <= 1024)):
            raise UserError(
                "SS4084",
                f'line {number} of "{path}" is no host: "{line.strip()[:100]}"',
                hint="write a name, or user@name, and if need be the number of its slots",
            )
        if words[0] in found:
            raise UserError(
                "SS4084", f'host "{words[0]}" stands twice in "{path}"', hint="leave one line out"
            )
        found[words[0]] = Host(words[0], int(slots) if slots else None)
    if not found:
        raise UserError("SS4084", f'"{path}" names no host', hint="write a host a line")
    return tuple(found.values())


def start(
    hosts: Sequence[Host], command: str, join: str, token: str, settings: Sequence[str]
) -> list[Answer]:
    """Start a TaskManager on each host that has none. `command` is how a shell of the hosts finds sqlstream; the token goes over
    standard input, so that no list of processes shows it."""
    given = " ".join(f"-D {shlex.quote(setting)}" for setting in settings)

    def script(host: Host) -> str:
        slots = f"--slots {host.slots}" if host.slots is not None else ""
        return _UP.format(command=command, join=shlex.quote(join), more=f"{slots} {given}")

    return _on_all(hosts, script, token)


def stop(hosts: Sequence[Host]) -> list[Answer]:
    return _on_all(hosts, lambda host: _DOWN)


def ask(hosts: Sequence[Host]) -> list[Answer]:
    return _on_all(hosts, lambda host: _STATUS)


def _on_all(hosts: Sequence[Host], script: Callable[[Host], str], given: str = "") -> list[Answer]:
    with ThreadPoolExecutor(min(AT_ONCE_MAX, len(hosts))) as pool:
        return list(pool.map(lambda host: _on(host, script(host), given), hosts))


def _on(host: Host, script: str, given: str) -> Answer:
    try:
        done = subprocess.run(
            [*SSH, host.name, "sh", "-c", shlex.quote(_FIND + script)],
            input=given, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise UserError(
            "SS4084", "ssh is not installed here", hint="Debian: apt-get install openssh-client"
        ) from error
    except subprocess.TimeoutExpired:
        return Answer(host.name, f"did not answer within {TIMEOUT_S:g} s", False)
    said = (done.stdout if done.returncode in (0, 3) else done.stderr or done.stdout).strip().splitlines()
    return Answer(host.name, said[-1] if said else f"exit code {done.returncode}", done.returncode == 0)
