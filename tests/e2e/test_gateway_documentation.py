"""The examples of docs/http.md are what happens."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from command_harness import ROOT
from gateway_harness import TIMEOUT_S, Server, gateway_server

from sqlstream.client.gateway.options import GatewayOptions

PAGE = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"```sh\n(.*?)```\n+```(?:json|text)\n(.*?)\n```", re.DOTALL)
HANDLE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=\"jobID\":\")[0-9a-f]{32}")
END = "==== end of example ===="


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    # Long enough for a busy machine: what is not ready is not shown.
    with gateway_server(GatewayOptions(page_wait_ms=20_000)) as found:
        yield found


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_the_page_print_what_it_shows(server: Server) -> None:
    examples = EXAMPLE.findall(PAGE)
    assert len(examples) == PAGE.count("```sh") == 6
    script = "".join(f"{commands}\necho\necho '{END}'\n" for commands, _ in examples)
    script = script.replace("http://localhost:8083", server.url)
    done = subprocess.run(
        ["bash", "-eu", "-c", script], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    printed = [HANDLE.sub("…", text).strip() for text in done.stdout.split(END)[:-1]]
    assert printed == [shown.strip() for _, shown in examples]
