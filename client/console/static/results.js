// What a tab's statements have answered: a line per statement, and the rows of the last one as they change.

import { ChangingTable, CHANGES_MAX } from "./changelog.js";
import { h, setText } from "./dom.js";
import { count, duration } from "./format.js";
import { Grid } from "./grid.js";

const LINES_MAX = 200;

export class Results {
  constructor() {
    this.lines = h("ol", { class: "outcomes", "aria-live": "polite", "aria-label": "Outcomes" });
    this.status = h("p", { class: "result-status", role: "status" });
    this.job = h("a", { class: "result-job", hidden: true });
    this.note = h("p", { class: "hint-line result-note" });
    this.views = h("div", { class: "segments", role: "group", "aria-label": "View of the result", hidden: true },
      this.viewButton("table", "Table"), this.viewButton("changelog", "Changelog"));
    this.content = h("div", { class: "result-content" });
    this.bar = h("div", { class: "result-bar", hidden: true }, this.status, this.job, this.views);
    this.element = h("div", { class: "result-panel" }, this.lines, this.bar, this.note, this.content);
    this.view = "table";
    this.frame = 0;
    this.table = null;
    this.grids = {};
    this.empty();
  }

  viewButton(view, label) {
    return h("button", { type: "button", data: { view }, on: { click: () => this.show(view) } }, label);
  }

  empty() {
    this.content.replaceChildren(h("div", { class: "empty" },
      h("p", { class: "empty-title" }, "No result yet"),
      h("p", {}, "Write a statement and press Ctrl + Enter. Rows of a running query appear here and stay up to date.")));
  }

  clear() {
    this.lines.replaceChildren();
    this.reset();
    this.empty();
  }

  reset() {
    for (const grid of Object.values(this.grids)) grid.close();
    this.grids = {};
    this.table = null;
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.bar.hidden = this.views.hidden = this.job.hidden = true;
    setText(this.status, "");
    setText(this.note, "");
    this.status.className = "result-status";
  }

  line(kind, title, text, link) {
    while (this.lines.children.length >= LINES_MAX) this.lines.firstChild.remove();
    const parts = [h("span", { class: "outcome-title" }, title), text ? h("span", { class: "outcome-text" }, text) : null];
    if (link) parts.push(h("a", { href: link.href }, link.text));
    this.lines.append(h("li", { class: `outcome ${kind}` }, parts));
    this.lines.scrollTop = this.lines.scrollHeight;
  }

  waiting(statement) {
    this.reset();
    this.content.replaceChildren(h("div", { class: "empty loading" }, h("span", { class: "spinner", "aria-hidden": "true" }), h("p", {}, `Running ${statement}`)));
  }

  begin(columns, isQuery, jobId) {
    this.reset();
    if (jobId && isQuery) {
      this.job.href = `#/jobs/${jobId}`;
      setText(this.job, `job ${jobId.slice(0, 8)}`);
      this.job.hidden = false;
    }
    this.table = new ChangingTable();
    this.startedMs = performance.now();
    this.isQuery = isQuery;
    const shown = columns.map((c) => ({ name: c.name, type: c.logicalType?.type ?? "" }));
    this.grids = {
      table: new Grid(shown, "Rows"),
      changelog: new Grid([{ name: "op", type: "op" }, ...shown], "Changes"),
    };
    this.bar.hidden = false;
    this.views.hidden = !isQuery;
    this.paintedVersion = 1;
    this.show(this.view);
    this.status.classList.toggle("live", isQuery);
  }

  rows(changes) {
    this.table.apply(changes);
    this.update();
  }

  show(view) {
    this.view = view;
    for (const button of this.views.children) button.setAttribute("aria-pressed", String(button.dataset.view === view));
    this.paint();
  }

  // Rows may come faster than frames: what is shown is computed once per frame.
  update() {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.paint());
  }

  paint() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const table = this.table;
    if (table === null) return;
    const isChangelog = this.view === "changelog" && this.isQuery;
    const grid = isChangelog ? this.grids.changelog : this.grids.table;
    if (this.content.firstChild !== grid.element) this.content.replaceChildren(grid.element);
    if (isChangelog) grid.render(table.latestChanges().map((c) => ({ fields: [c.op, ...c.fields] })), Infinity);
    else grid.render(table.current(), this.paintedVersion);
    this.paintedVersion = Math.max(1, table.version);
    if (this.isQuery) setText(this.status, this.summary());
    const dropped = [];
    if (table.droppedRows > 0) dropped.push(`the oldest ${count(table.droppedRows)} rows are not shown`);
    if (isChangelog && table.changeCount > CHANGES_MAX) dropped.push(`the last ${count(CHANGES_MAX)} changes are shown`);
    setText(this.note, dropped.join("; "));
  }

  summary() {
    const { size, changeCount } = this.table;
    const rows = `${count(size)} ${size === 1 ? "row" : "rows"}`;
    return changeCount === size ? rows : `${rows} after ${count(changeCount)} changes`;
  }

  end(text, kind, warnings = []) {
    this.status.classList.remove("live");
    if (kind) this.status.classList.add(kind);
    if (this.table === null) {
      this.content.replaceChildren(h("div", { class: "empty" }, h("p", { class: "empty-title" }, text)));
      return;
    }
    this.paint();
    const took = duration(performance.now() - this.startedMs);
    setText(this.status, this.isQuery ? `${this.summary()} · ${text} in ${took}` : text);
    if (warnings.length > 0) setText(this.note, warnings.join(" "));
    if (this.table.size === 0 && this.view === "table" && kind !== "bad") {
      this.content.replaceChildren(h("div", { class: "empty" }, h("p", { class: "empty-title" }, "No rows")));
    }
  }

  failed(error) {
    const detail = error.detail ?? {};
    const place = detail.line ? ` at line ${detail.line}, column ${detail.column}` : "";
    const block = h("div", { class: "failure", role: "alert" },
      h("p", { class: "failure-title" }, detail.code ? `${detail.code}${place}` : "Error"),
      h("p", { class: "failure-text" }, error.message),
      detail.detail ? h("p", { class: "failure-detail" }, detail.detail) : null,
      detail.hint ? h("p", { class: "failure-hint" }, detail.hint) : null);
    this.reset();
    this.content.replaceChildren(block);
  }
}
