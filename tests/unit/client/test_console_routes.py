"""What the console's routes serve, and what they do not."""

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from sqlstream.client.console.app import console_routes
from sqlstream.client.rest.app import ServerInfo
from sqlstream.errors import UserError


@pytest.fixture
def serve(tmp_path):
    """The console with the editor's files of a directory; completion knows the session `s` alone."""

    def complete(session, statement, position, asker):
        if session != "s":
            raise UserError("SS6020", "there is no such session")
        return [statement[:position].upper()]

    def start(*editor_files):
        for name in editor_files:
            (tmp_path / name).write_text("//")
        (tmp_path / "LICENSE").write_text("secret")
        app = FastAPI()
        app.include_router(console_routes(complete, ServerInfo("0.1.0"), tmp_path))
        return TestClient(app)

    return start


def test_the_page_may_load_nothing_from_elsewhere_nor_be_framed(serve):
    page = serve().get("/")
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert serve().get("/console/main.js").headers["content-type"].startswith("text/javascript")


def test_one_script_may_ask_servers_that_lead_next_and_no_address_ends_its_policy(tmp_path):
    urls = ["http://head2:8081", "https://[::1]:8081", "http://x; script-src *", "ftp://y"]
    app = FastAPI()
    app.include_router(console_routes(lambda *_: [], ServerInfo("0.1.0"), tmp_path, others=lambda: urls))
    console = TestClient(app)
    policy = console.get("/console/servers.js").headers["content-security-policy"]
    assert policy.endswith("; connect-src http://head2:8081 https://[::1]:8081")
    assert "connect-src" not in console.get("/").headers["content-security-policy"]
    assert console.get("/console/about.json").json()["others"] == urls[:2]


def test_the_page_says_whether_the_editor_is_there(serve):
    assert serve().get("/console/about.json").json() == {
        "version": "0.1.0",
        "hasEditor": False,
        "others": [],
    }
    rest = serve("codemirror.js", "codemirror.css", "sql.js")
    assert rest.get("/console/about.json").json()["hasEditor"] is True
    assert rest.get("/console/editor-codemirror.js").text == "//"


@pytest.mark.parametrize(
    "name", ["LICENSE", "editor-LICENSE", "app.py", "..%2Fapp.py", "%2Fetc%2Fpasswd", ""]
)
def test_only_the_files_of_the_page_are_served(serve, name):
    assert serve("codemirror.js").get(f"/console/{name}").status_code == 404


def test_completion_is_asked_with_a_post(serve):
    console = serve()
    ask = {"sessionHandle": "s", "statement": "sel", "position": 2}
    assert console.post("/console/complete-statement", json=ask).json() == {"candidates": ["SE"]}
    for body, status in (
        (b"{", 400),
        (b'{"statement":1}', 400),
        (b'{"sessionHandle":"x","statement":"","position":0}', 400),
    ):
        answer = console.post("/console/complete-statement", content=body)
        assert (answer.status_code, list(answer.json())) == (status, ["errors"])


def test_no_module_of_the_page_parses_html(serve):
    from sqlstream.client.console.app import STATIC

    for path in STATIC.glob("*.js"):
        text = path.read_text()
        assert not any(
            word in text
            for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(")
        ), path.name
