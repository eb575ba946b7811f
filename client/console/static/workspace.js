// Tabs of statements: their texts, what runs in them, and their results.

import { byId, h } from "./dom.js";
import { makeEditor } from "./editor.js";
import { Results } from "./results.js";
import { charactersOf, statementAt, statements, unitsOf } from "./script.js";
import { Running, complete } from "./session.js";

const KEPT = "sqlstream.tabs";
const TABS_MAX = 20;
const EXAMPLE = `-- Ctrl+Enter runs the statement at the cursor.
CREATE TEMPORARY TABLE clicks (
  user_id INT,
  price   DOUBLE
) WITH (
  'connector' = 'datagen',
  'rows-per-second' = '50',
  'fields.user_id.min' = '1',
  'fields.user_id.max' = '8',
  'fields.price.min' = '1',
  'fields.price.max' = '100'
);

SELECT user_id, COUNT(*) AS clicks, ROUND(SUM(price), 2) AS revenue
FROM clicks
GROUP BY user_id;
`;

export class Workspace {
  constructor(onJob) {
    this.onJob = onJob;
    this.tabs = [];
    this.active = null;
    this.isLoading = false;
  }

  async start(hasEditor) {
    const actions = { run: () => this.run(), runAll: () => this.runAll(), change: () => this.keep() };
    this.editor = await makeEditor(byId("editor"), hasEditor, actions, (text, cursor) => this.complete(text, cursor));
    byId("run").addEventListener("click", () => this.run());
    byId("run-all").addEventListener("click", () => this.runAll());
    byId("cancel").addEventListener("click", () => this.cancel());
    byId("add-tab").addEventListener("click", () => { this.select(this.add("")); this.editor.focus(); });
    for (const text of this.kept()) this.add(text);
    this.select(this.tabs[0]);
  }

  kept() {
    try {
      const texts = JSON.parse(localStorage.getItem(KEPT));
      if (Array.isArray(texts) && texts.length > 0 && texts.every((t) => typeof t === "string")) return texts.slice(0, TABS_MAX);
    } catch {
      // What is kept cannot be read: begin anew.
    }
    return [EXAMPLE];
  }

  keep() {
    if (this.active === null || this.isLoading) return;
    this.active.text = this.editor.text();
    try {
      localStorage.setItem(KEPT, JSON.stringify(this.tabs.map((tab) => tab.text)));
    } catch {
      // The browser keeps nothing, or no more.
    }
  }

  // --- tabs

  add(text) {
    const number = Math.max(0, ...this.tabs.map((tab) => tab.number)) + 1;
    const tab = { number, text, results: new Results(), running: null, queue: [] };
    this.tabs.push(tab);
    byId("add-tab").disabled = this.tabs.length >= TABS_MAX;
    return tab;
  }

  select(tab) {
    this.active = tab;
    this.isLoading = true;
    this.editor.setText(tab.text);
    this.isLoading = false;
    byId("results").replaceChildren(tab.results.element);
    this.paint();
    this.keep();
  }

  close(tab) {
    this.stop(tab);
    const index = this.tabs.indexOf(tab);
    this.tabs.splice(index, 1);
    if (this.tabs.length === 0) this.add("");
    byId("add-tab").disabled = false;
    this.select(tab === this.active ? this.tabs[Math.min(index, this.tabs.length - 1)] : this.active);
  }

  paint() {
    byId("tabs").replaceChildren(...this.tabs.map((tab) => this.tabElement(tab)));
    const isRunning = this.active.running !== null;
    byId("cancel").hidden = !isRunning;
    byId("run").disabled = byId("run-all").disabled = isRunning;
  }

  tabElement(tab) {
    const isActive = tab === this.active;
    const name = `Query ${tab.number}`;
    const button = h("button", {
      type: "button", role: "tab", class: "tab", "aria-selected": String(isActive), tabindex: isActive ? "0" : "-1", "aria-controls": "editor",
      on: { click: () => this.select(tab), keydown: (event) => this.onTabKey(event, tab) },
    }, tab.running === null ? null : h("span", { class: "dot running", "aria-label": "running" }), name);
    const close = h("button", { type: "button", class: "quiet icon close", "aria-label": `Close ${name}`, title: "Close", on: { click: () => this.close(tab) } }, "×");
    return h("span", { class: isActive ? "tab-box active" : "tab-box", role: "presentation" }, button, close);
  }

  onTabKey(event, tab) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    const next = this.tabs[(this.tabs.indexOf(tab) + step + this.tabs.length) % this.tabs.length];
    this.select(next);
    byId("tabs").querySelector('[aria-selected="true"]').focus();
  }

  // --- running

  // What is selected, or else the statement at the cursor.
  run() {
    const script = this.editor.text();
    const [from, to] = this.editor.selection();
    const chosen = from === to ? statementAt(script, this.editor.cursor()) : null;
    if (from !== to) {
      this.execute(statements(script.slice(from, to)).map((s) => ({ text: s.text, start: s.start + from })));
    } else if (chosen !== null) this.execute([chosen]);
  }

  runAll() {
    this.execute(statements(this.editor.text()));
  }

  async execute(chosen) {
    const tab = this.active;
    if (tab.running !== null || chosen.length === 0) return;
    this.editor.clearError();
    tab.results.clear();
    tab.queue = [...chosen];
    while (tab.queue.length > 0) {
      const statement = tab.queue.shift();
      if (!(await this.executeOne(tab, statement))) tab.queue = [];
    }
    this.paint();
  }

  // Whether the statements behind it are to run.
  async executeOne(tab, statement) {
    const running = new Running(statement.text);
    const title = shortened(statement.text);
    tab.running = running;
    if (tab === this.active) this.paint();
    tab.results.waiting(title);
    try {
      return await this.follow(tab, running, title);
    } catch (error) {
      if (running.isCancelled) this.cancelled(tab, title);
      else this.failed(tab, statement, title, error);
      return false;
    } finally {
      tab.running = null;
      if (tab === this.active) this.paint();
    }
  }

  async follow(tab, running, title) {
    const results = tab.results;
    let head = null;
    for await (const { event, data } of running.events()) {
      if (running.isSessionNew && head === null) results.line("note", "New session", "the one before was closed: its temporary tables and settings are gone");
      if (event === "columns") {
        head = data;
        results.begin(data.columns, data.isQueryResult, data.jobID);
        if (data.jobID) this.onJob(data.jobID);
      } else if (event === "rows") {
        results.rows(data);
        if (head.jobID && !head.isQueryResult) results.line("job", title, "runs as job", { href: `#/jobs/${head.jobID}`, text: head.jobID.slice(0, 8) });
      } else if (event === "error") throw Object.assign(new Error(data.error?.message ?? data.errors?.at(-1) ?? "the statement failed"), { detail: data.error ?? null });
      else if (event === "end") return this.ended(tab, head, title, data);
    }
    if (running.isCancelled) throw new Error("cancelled");
    throw new Error("the connection to the server was lost");
  }

  ended(tab, head, title, data) {
    const { results } = tab;
    const isDone = head.resultKind === "SUCCESS" && results.table.size <= 1;
    if (!head.jobID || head.isQueryResult) results.line("good", title, isDone ? "OK" : results.summary());
    if (head.jobID && !head.isQueryResult) results.end("Submitted");
    else if (isDone && !head.isQueryResult) {
      results.reset();
      results.end("OK");
    } else results.end(head.isQueryResult ? data.status.toLowerCase() : results.summary(), null, data.warnings ?? []);
    return true;
  }

  cancelled(tab, title) {
    tab.results.line("off", title, "cancelled");
    tab.results.end("cancelled", "off");
  }

  failed(tab, statement, title, error) {
    tab.results.line("bad", title, "failed");
    tab.results.failed(error);
    const span = error.detail?.span;
    if (span && tab === this.active) {
      const [start, end] = span.map((characters) => statement.start + unitsOf(statement.text, characters));
      this.editor.showError(start, end, error.message);
    }
  }

  cancel() {
    this.stop(this.active);
  }

  stop(tab) {
    tab.queue = [];
    tab.running?.cancel();
  }

  async complete(text, cursor) {
    const statement = statementAt(text, cursor);
    const isBehind = statement !== null && text.slice(statement.end, Math.max(statement.end, cursor)).includes(";");
    if (statement === null || cursor < statement.start || isBehind) return complete("", 0);
    const own = text.slice(statement.start, Math.max(statement.end, cursor));
    return complete(own, charactersOf(own, cursor - statement.start));
  }
}

const shortened = (text) => {
  const line = text.replace(/^(?:\s*--[^\n]*\n|\s*\/\*[\s\S]*?\*\/)*/, "").replace(/\s+/g, " ").trim();
  return line.length > 80 ? `${line.slice(0, 79)}…` : line;
};
