"""The page's modules without the page: changelogs, scripts, graphs."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def module(browser, server):
    """Evaluate a function of a module's exports: `module("script.js", "m => …")`."""
    page = browser.new_page()
    page.goto(server)
    yield lambda name, function: page.evaluate(f"import('/console/{name}').then({function})")
    page.close()


def test_a_script_is_split_at_semicolons_outside_of_quotes_comments_and_statement_sets(module):
    script = (
        "SELECT ';' AS `a;b`; -- c;d\\n/* ; */ SELECT 1;; EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; "
        "INSERT INTO b SELECT 2; END; SELECT 'it''s;'"
    )
    found = module("script.js", f'm => m.statements("{script}").map(s => s.text)')
    assert found == [
        "SELECT ';' AS `a;b`",
        "-- c;d\n/* ; */ SELECT 1",
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END",
        "SELECT 'it''s;'",
    ]


def test_the_statement_at_a_cursor_includes_its_semicolon(module):
    texts = module("script.js", "m => [0, 2, 4, 5, 6, 99].map(i => m.statementAt('A B; C D;', i)?.text)")
    assert texts == ["A B", "A B", "A B", "C D", "C D", "C D"]


def test_updates_take_the_place_of_the_row_before(module):
    rows = module(
        "changelog.js",
        """m => { const t = new m.ChangingTable(); const c = (kind, ...fields) => ({kind, fields});
        t.apply([c('INSERT', 'a', 1), c('INSERT', 'b', 1), c('INSERT', 'b', 1)]);
        t.apply([c('UPDATE_BEFORE', 'a', 1), c('UPDATE_AFTER', 'a', 2), c('DELETE', 'b', 1), c('DELETE', 'x', 1)]);
        t.apply([c('UPDATE_BEFORE', 'a', 2), c('INSERT', 'c', 1), c('UPDATE_BEFORE', 'b', 1), c('UPDATE_AFTER', 'b', 2)]);
        return [t.current().map(r => r.fields), t.changeCount, t.size] }""",
    )
    assert rows == [[["b", 2], ["c", 1]], 11, 2]


def test_a_table_and_its_changelog_are_bounded(module):
    found = module(
        "changelog.js",
        """m => { const t = new m.ChangingTable(1000, 100);
        for (let i = 0; i < 300; i++) t.apply(Array.from({length: 10}, (_, j) => ({kind: 'INSERT', fields: [10 * i + j]})));
        return [t.size <= 1000, t.rows.length + t.droppedRows, t.changes.length <= 200, t.latestChanges().length,
                t.current().at(-1).fields[0], t.places.size <= 1000] }""",
    )
    assert found == [True, 3000, True, 100, 2999, True]


def test_a_random_changelog_leaves_the_rows_of_a_plain_multiset(module):
    assert module(
        "changelog.js",
        """m => { let seed = 7; const random = n => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
        const t = new m.ChangingTable(); const plain = [];
        for (let i = 0; i < 20000; i++) {
          const kind = plain.length > 50 || (plain.length > 0 && random(2)) ? ['DELETE', 'UPDATE_BEFORE'][random(2)] : 'INSERT';
          if (kind === 'INSERT') { const fields = [random(20)]; plain.push(fields[0]); t.apply([{kind, fields}]); continue; }
          const [gone] = plain.splice(random(plain.length), 1);
          t.apply([{kind, fields: [gone]}]);
          if (kind === 'DELETE' || random(3) === 0) continue;
          const fields = [random(20)];
          plain.push(fields[0]);
          t.apply([{kind: 'UPDATE_AFTER', fields}]);
        }
        const sorted = list => JSON.stringify([...list].sort((a, b) => a - b));
        return sorted(t.current().map(r => r.fields[0])) === sorted(plain) }""",
    )


def test_vertices_stand_below_all_their_inputs_and_none_covers_another(module):
    places = module(
        "graph.js",
        """m => { const n = (id, ...inputs) => ({id, inputs: inputs.map(i => ({id: i}))});
        const {places, width, height} = m.layout([n('a'), n('b'), n('c', 'a', 'b'), n('d', 'c', 'a'), n('e', 'c')]);
        return {places: Object.fromEntries(places), width, height} }""",
    )
    at = places["places"]
    assert at["a"]["y"] == at["b"]["y"] < at["c"]["y"] < at["d"]["y"] == at["e"]["y"]
    assert len({(p["x"], p["y"]) for p in at.values()}) == 5
    assert abs(at["a"]["x"] - at["b"]["x"]) >= 268


def test_watermarks_at_the_ends_of_their_range_are_no_times(module):
    found = module("format.js", "m => [-9.3e18, 9.3e18, 60000].map(w => m.watermark(w, 65000))")
    assert found == [
        {"text": "none", "lag": ""},
        {"text": "end of input", "lag": ""},
        {"text": "1970-01-01 00:01:00", "lag": "5.0 s"},
    ]


def test_a_candidate_replaces_the_part_of_it_that_is_written(module):
    found = module(
        "completion.js",
        "m => [['SELECT us', 'user_id'], ['FROM db.ta', 'table'], ['bus', 'user'], ['', 'x']].map(([a, b]) => m.overlap(a, b))",
    )
    assert found == [2, 2, 0, 0]


def test_harmful_characters_of_names_and_data_are_shown_as_escapes(module):
    found = module(
        "dom.js",
        r"""m => {
        const e = m.h('p', {title: 'a\u202eb'}, 'x\u202ey\x07', m.h('b', {}, '1\n2'), document.createTextNode('\u202e'));
        m.setText(e.querySelector('b'), '\x1b[2J');
        return [e.title, e.textContent, m.shown('a\n\t\u2066\u200b\u200d')] }""",
    )
    assert found == ["a\\u202eb", "x\\u202ey\\x07\\x1b[2J\u202e", "a\\n\\t\\u2066\\u200b\u200d"]


def test_the_columns_and_cells_of_a_grid_hide_nothing(module):
    found = module(
        "grid.js",
        r"""m => { const g = new m.Grid([{name: 'a\u202eb\n', type: 'STRING'}], 'rows');
        g.render([{fields: ['x\u2066\ny'], version: 0}], 0);
        return [g.table.querySelector('th').textContent, g.rowElement(g.rows[0], 0).textContent] }""",
    )
    assert found == ["a\\u202eb\\n", "x\\u2066\\ny"]


def test_a_ledger_says_what_became_of_rows_and_what_is_missing(module):
    found = module(
        "job.js",
        """m => { const calc = {name: 'Calc[2]', 'rows-in': 12000, 'rows-out': 9, parts: {filtered: 3},
            balance: 'rows in = rows out + filtered', text: '', sides: []};
        const left = {name: 'left', 'rows-in': 7, parts: {held: 5, done: 1}, balance: '', text: '1 is missing'};
        return [m.ledgerText({checkpoint: 7, balanced: true, operators: [calc]}),
                m.ledgerText({checkpoint: null, balanced: false, operators: [calc]}),
                m.ledgerText({checkpoint: null, balanced: true, operators: []}),
                m.ledgerRows(calc), m.ledgerRows({...calc, text: '2 are missing', sides: [left]})] }""",
    )
    assert found == [
        "The rows add up at checkpoint 7.",
        "The rows do not add up at the end of the job.",
        "The rows are added up at the first checkpoint, or at the end of the job.",
        [["Calc[2]", "12,000", "9", "filtered 3", "rows in = rows out + filtered"]],
        [
            ["Calc[2]", "12,000", "9", "filtered 3", "2 are missing"],
            ["Calc[2] left", "7", "", "held 5, done 1", "1 is missing"],
        ],
    ]


def test_a_job_tells_its_last_checkpoint_and_what_went_wrong(module):
    found = module(
        "job.js",
        """m => { const counts = {failed: 0, restored: 0}, last = {id: 12, latest_ack_timestamp: 1000, state_size: 2048};
        return [m.checkpointsText({counts, latest: {completed: null}}, 5000),
                m.checkpointsText({counts, latest: {completed: last}}, 5000),
                m.checkpointsText({counts: {failed: 3, restored: 2}, latest: {completed: null}}, 5000)] }""",
    )
    assert found == [
        "",
        " · checkpoint 12, 4.0 s ago, 2.0 KiB",
        " · 3 failed · went on from a checkpoint 2×",
    ]
