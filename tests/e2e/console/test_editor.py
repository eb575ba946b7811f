"""The plain editor, completion, and a server that demands a token."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.usefixtures("browser")


def test_without_the_editors_package_a_text_field_does_the_same(page, server, open_console):
    page.route(
        "**/console/about.json", lambda route: route.fulfill(json={"version": "0", "hasEditor": False})
    )
    console = open_console(page, server)
    assert page.locator("#plain-editor").is_visible()
    console.run("SELECT 1 AS one;\nSELECT nothing;")
    page.wait_for_selector(".failure")
    assert page.locator(".plain-backdrop .sql-error").all_text_contents() == ["nothing"]
    console.write("SELECT 2 AS two;")
    page.keyboard.press("Control+Enter")
    console.wait_for("document.querySelector('.grid tbody tr:not(.spacer) td')?.textContent === '2'")


def test_candidates_are_offered_at_the_cursor_and_replace_what_is_written(page, server, open_console):
    page.route(
        "**/console/complete-statement", lambda route: route.fulfill(json={"candidates": ["SELECT", "SET"]})
    )
    console = open_console(page, server)
    console.write("sel")
    page.keyboard.press("Control+Space")
    expect(page.locator("#candidates li")).to_have_text(["SELECT", "SET"])
    page.keyboard.press("Enter")
    assert console.text() == "SELECT"
    expect(page.locator("#candidates")).to_be_hidden()


def test_columns_of_the_sessions_tables_are_completed(page, server, open_console):
    console = open_console(page, server)
    table = "CREATE TEMPORARY TABLE orders (customer_name STRING) WITH ('connector' = 'datagen');\n"
    console.run(table)
    console.wait_for("document.querySelector('.outcome.good') !== null")
    console.write(table + "SELECT o.cust FROM orders AS o")
    for _ in range(len(" FROM orders AS o")):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Control+Space")
    expect(page.locator("#candidates li").first).to_have_text("customer_name")
    page.keyboard.press("Enter")
    assert console.text() == table + "SELECT o.customer_name FROM orders AS o"


def test_a_server_with_a_token_is_opened_with_it_and_not_with_another(page, guarded, open_console):
    url, token = guarded
    page.goto(url)
    page.wait_for_selector("#token-dialog[open]")
    page.fill("#token", "wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#token-error")).to_have_text("The server does not accept this token.")
    page.fill("#token", token)
    page.keyboard.press("Enter")
    page.wait_for_selector("body[data-ready]")
    console = open_console(page, url)
    console.run("SELECT 1 AS one;")
    console.wait_for("document.querySelector('.grid tbody tr:not(.spacer) td')?.textContent === '1'")


def test_the_page_loads_nothing_from_elsewhere(page, server, open_console):
    hosts = set()
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    open_console(page, server)
    assert hosts == {server.split("/")[2]}
