"""The console in headless Chromium: statements, live results, errors, jobs."""

from __future__ import annotations

import pytest

CLICKS = """CREATE TEMPORARY TABLE clicks (user_id INT, ts AS LOCALTIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'datagen', 'rows-per-second' = '200', 'fields.user_id.min' = '1', 'fields.user_id.max' = '3');
"""
COUNTS = CLICKS + "SELECT user_id, COUNT(*) AS n FROM clicks GROUP BY user_id;"
HOSTILE = "<img src=x onerror=\"document.title='taken'\">"


def test_rows_of_a_running_query_change_in_place_until_it_is_cancelled(console):
    console.run(COUNTS)
    console.wait_for("document.querySelectorAll('.grid tbody tr:not(.spacer)').length === 3")
    first = {row[0]: int(row[1]) for row in console.rows()}
    rows = "[...document.querySelectorAll('.grid tbody tr:not(.spacer)')]"
    console.wait_for(f"{rows}.every(r => +r.cells[1].textContent > {max(first.values())})")
    assert [row[0] for row in console.rows()] == list(first)
    console.page.click("text=Changelog")
    console.wait_for("document.querySelectorAll('.grid .op-out').length > 0")
    assert {row[0] for row in console.rows()} <= {"+I", "-U", "+U"}
    console.page.click("#cancel")
    console.wait_for("document.querySelector('.result-status').textContent.includes('cancelled')")
    console.wait_for("document.querySelector('.job-row .state').textContent === 'Canceled'")


def test_the_statement_at_the_cursor_runs_and_no_other(console):
    console.write("SELECT 'first' AS a;\nSELECT 'second' AS b;")
    console.page.keyboard.press("Control+Home")
    console.page.keyboard.press("Control+Enter")
    console.wait_for("document.querySelector('.result-status')?.textContent.includes('finished')")
    assert console.rows() == [["first"]]
    assert console.page.locator(".outcome").count() == 1


def test_an_error_is_underlined_where_it_is_and_shown_with_its_hint(console):
    console.run(CLICKS + "\nSELECT 'ü😀', usr_id\nFROM clicks;")
    console.page.wait_for_selector(".failure")
    assert console.page.locator(".sql-error").all_text_contents() == ["usr_id"]
    said = console.page.locator(".failure").text_content()
    assert 'column "usr_id" does not exist' in said
    assert "user_id" in console.page.locator(".failure-hint").text_content()
    console.page.keyboard.press("End")
    console.page.keyboard.type(" ")
    assert console.page.locator(".sql-error").count() == 0


def test_the_graph_of_a_job_shows_figures_that_move(console):
    insert = "CREATE TEMPORARY TABLE nowhere (user_id INT, n BIGINT) WITH ('connector' = 'blackhole');"
    window = "TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' SECOND))"
    grouped = f"SELECT user_id, COUNT(*) FROM {window} GROUP BY user_id, window_start, window_end;"
    console.run(f"SET 'parallelism.default' = '2';\n{CLICKS}{insert}\nINSERT INTO nowhere {grouped}")
    console.page.click(".outcome.job a")
    cards = console.page.locator(".card")
    cards.nth(1).wait_for()
    console.wait_for("document.querySelector('.card .card-rate').textContent.includes('/s')")
    console.wait_for(
        "[...document.querySelectorAll('.card-lag')].every(lag => lag.textContent.includes('behind'))"
    )
    console.wait_for("document.querySelectorAll('.card-state-size')[0].textContent.includes('KiB')")
    assert "% idle" in cards.first.text_content()
    before = console.page.locator(".card-records").first.text_content()
    console.wait_for(f"document.querySelector('.card-records').textContent !== {before!r}")
    cards.nth(1).click()
    console.page.wait_for_selector(".facts tbody tr")
    assert "WindowAggregate" in console.page.locator(".operators").text_content()
    console.page.click("text=Cancel job")
    console.wait_for("document.querySelector('.panel-head .state').textContent === 'Canceled'")


def test_hostile_values_and_names_stay_text(console):
    value = HOSTILE.replace("'", "''")
    console.run(f"SELECT '{value}' AS `{HOSTILE}`;")
    console.wait_for("document.querySelector('.grid tbody tr:not(.spacer) td') !== null")
    assert console.rows() == [[HOSTILE]]
    assert console.page.locator(".grid th").all_text_contents() == [HOSTILE]
    console.run(f"SELECT `{HOSTILE}` FROM (VALUES (1)) AS t(a);")
    console.page.wait_for_selector(".failure")
    assert HOSTILE in console.page.locator(".failure-text").text_content()
    assert console.page.locator("img[src=x]").count() == 0
    assert console.page.title() == "sqlstream"


def test_a_failed_job_shows_its_exception(console):
    console.run(
        "CREATE TEMPORARY TABLE nowhere (a INT) WITH ('connector' = 'blackhole');\n"
        "CREATE TEMPORARY TABLE numbers (a INT) WITH ('connector' = 'datagen', 'fields.a.kind' = 'sequence',\n"
        "  'fields.a.start' = '0', 'fields.a.end' = '5');\n"
        "INSERT INTO nowhere SELECT 10 / a FROM numbers;"
    )
    console.page.click(".outcome.job a")
    console.page.wait_for_selector(".exception[open]")
    assert "division by zero" in console.page.locator(".exception pre").text_content()
    assert console.page.locator(".panel-head .state").text_content() == "Failed"


def test_tabs_keep_their_texts_and_results_over_a_reload(console):
    console.run("SELECT 1 AS one;")
    console.wait_for("document.querySelector('.grid tbody tr:not(.spacer) td') !== null")
    console.page.click("#add-tab")
    console.write("SELECT 2 AS two;")
    assert console.page.locator(".grid").count() == 0
    console.page.click("role=tab[name='Query 1']")
    assert console.rows() == [["1"]]
    console.page.reload()
    console.page.wait_for_selector("body[data-ready]")
    assert console.page.locator("[role=tab]").all_text_contents() == ["Query 1", "Query 2"]
    assert console.text() == "SELECT 1 AS one;"


def test_temporary_tables_of_the_session_are_there_after_a_reload(console):
    console.run(CLICKS)
    console.wait_for("document.querySelector('.outcome.good') !== null")
    console.page.reload()
    console.page.wait_for_selector("body[data-ready]")
    console.run("SHOW TABLES;")
    console.wait_for("document.querySelector('.grid tbody tr:not(.spacer) td')?.textContent === 'clicks'")


def test_a_session_that_the_server_has_closed_is_opened_anew(console):
    # The page opens its session in the background: before that there is none to close.
    console.wait_for("sessionStorage.getItem('sqlstream.session')")
    console.page.evaluate(
        "fetch(`/v4/sessions/${sessionStorage.getItem('sqlstream.session')}`, {method: 'DELETE'})"
    )
    console.run("SELECT 1 AS one;")
    console.wait_for("document.querySelector('.grid tbody tr:not(.spacer) td')?.textContent === '1'")
    assert "New session" in console.page.locator(".outcomes").text_content()


@pytest.mark.slow
def test_a_hundred_thousand_rows_are_a_few_elements(console):
    console.run(
        "CREATE TEMPORARY TABLE numbers (a INT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000',\n"
        "  'fields.a.kind' = 'sequence', 'fields.a.start' = '1', 'fields.a.end' = '120000');\n"
        "SELECT a FROM numbers;"
    )
    console.wait_for("document.querySelector('.result-status').textContent.includes('finished')")
    assert len(console.rows()) < 100
    assert "the oldest" in console.page.locator(".result-note").text_content()
    console.page.evaluate("document.querySelector('.grid-scroll').scrollTop = 1e9")
    console.wait_for(
        "[...document.querySelectorAll('.grid tr:not(.spacer) td')].some(c => c.textContent === '120000')"
    )


def test_task_managers_show_their_slots(console):
    console.run(CLICKS + "SELECT * FROM clicks;")
    console.wait_for("document.querySelectorAll('.grid tbody tr').length > 3")
    console.page.click("[data-view=taskmanagers]")
    console.page.wait_for_selector(".slots .used", timeout=20_000)
    assert "slots in use" in console.page.locator(".panel > .job-facts").text_content()
    assert "CPU" in console.page.locator(".tm").first.text_content()


def test_at_400_pixels_nothing_is_wider_than_the_page(console):
    console.page.set_viewport_size({"width": 400, "height": 800})
    console.run(CLICKS + "SELECT user_id, ts, ts AS t2, ts AS t3 FROM clicks;")
    console.wait_for("document.querySelectorAll('.grid tbody tr').length > 3")
    for view in ("#/", "#/jobs", "#/taskmanagers"):
        console.page.evaluate(f"location.hash = '{view}'")
        console.page.wait_for_timeout(300)
        assert console.page.evaluate("document.documentElement.scrollWidth") <= 400
    assert console.page.locator(".workspace").is_hidden()


def test_every_control_has_a_name_and_the_keyboard_leaves_the_editor(console):
    unnamed = console.page.evaluate(
        "[...document.querySelectorAll('button, input, a, textarea')].filter(e => e.offsetParent !== null"
        " && !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length)).map(e => e.outerHTML)"
    )
    assert unnamed == []
    console.page.locator("[aria-label='SQL statements']").focus()
    console.page.keyboard.press("Tab")
    assert console.page.evaluate("document.activeElement.id") == "run"
