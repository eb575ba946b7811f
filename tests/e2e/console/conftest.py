"""Headless Chromium on the console of a server of its own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator

import pytest
from server_harness import START_TIMEOUT_S, RunningServer

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
TIMEOUT_MS = 60_000


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    """The URL of the console of a server with one TaskManager, which has started."""
    settings = ("taskmanager.numberOfTaskSlots=4", "sqlstream.in-process.max-input-size=0")
    words = [word for setting in settings for word in ("-D", setting)]
    with RunningServer(
        tmp_path_factory.mktemp("console") / "data", "--task-managers", "1", *words
    ) as running:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not running.get("/taskmanagers")["taskmanagers"]:
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        yield running.rest + "/"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory) -> Iterator[tuple[str, str]]:
    """The URL of the console of a server that demands a token, and that token."""
    directory = tmp_path_factory.mktemp("guarded") / "data"
    with RunningServer(directory, "-D", "sqlstream.server.authentication=ALWAYS") as running:
        yield running.rest + "/", (directory / "token").read_text().strip()


@pytest.fixture(scope="module")
def browser():
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("the page was not tested: there is no Chromium (Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    # Of a module and not of the session: while it runs, this thread has a running event loop, and other tests start their own.
    with sync_playwright() as playwright:
        # Playwright gives each browser that it launches a user data directory of its own.
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    """A page of a fresh profile; the test fails when a script of the page did."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if "Security Policy" in said.text else None)
    yield page
    context.close()
    assert problems == []


class Console:
    """The page as a user has it: writes statements, runs them, reads the answers."""

    def __init__(self, page, url: str) -> None:
        self.page = page
        page.goto(url)
        page.wait_for_selector("body[data-ready]")

    def write(self, sql: str) -> None:
        self.page.locator("[aria-label='SQL statements']").focus()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(sql)

    def run(self, sql: str) -> None:
        self.write(sql)
        self.page.keyboard.press("Control+Shift+Enter")

    def text(self) -> str:
        """What is written, in either editor."""
        return self.page.evaluate(
            "document.querySelector('.CodeMirror')?.CodeMirror.getValue() ?? document.querySelector('.plain-input').value"
        )

    def rows(self) -> list[list[str]]:
        return self.page.evaluate(
            "[...document.querySelectorAll('.grid tbody tr:not(.spacer)')].map(r => [...r.cells].map(c => c.textContent))"
        )

    def wait_for(self, condition: str) -> None:
        """Wait until an expression is true. Not by the page's own scripts: its policy lets none evaluate a text."""
        deadline_s = time.monotonic() + TIMEOUT_MS / 1000
        while not self.page.evaluate(condition):
            assert time.monotonic() < deadline_s, (
                f"never came: {condition}\n{self.page.locator('body').inner_text()}"
            )
            time.sleep(0.03)


@pytest.fixture
def console(page, server: str) -> Console:
    return Console(page, server)


@pytest.fixture
def open_console():
    """Open the console at a URL: `open_console(page, url)`."""
    return Console
