// A table of many rows of which only the visible ones are elements.

import { h, shown } from "./dom.js";

const ROW_PX = 28;
const OVERSCAN = 8;
const NUMERIC = new Set(["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"]);

export class Grid {
  // `columns`: [{ name, type }]. `render` may be called at any rate: it draws once per frame.
  constructor(columns, label) {
    this.columns = columns;
    this.rows = [];
    this.version = Infinity;
    this.frame = 0;
    this.body = h("tbody");
    this.above = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: columns.length }));
    this.below = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: columns.length }));
    const head = h("tr", {}, columns.map((c) => h("th", { scope: "col", class: this.cellClass(c), title: c.type }, shown(c.name))));
    this.table = h("table", { class: "grid", "aria-label": label }, h("thead", {}, head), this.body);
    this.element = h("div", { class: "grid-scroll", tabindex: "0", role: "region", "aria-label": label }, this.table);
    this.element.addEventListener("scroll", () => this.schedule());
    this.observer = new ResizeObserver(() => this.schedule());
    this.observer.observe(this.element);
  }

  cellClass(column) {
    return NUMERIC.has(column.type) ? "number" : column.type === "op" ? "op" : "";
  }

  // `rows`: [{ fields, version }]; rows that are newer than `version` are lit up for a moment.
  render(rows, version) {
    this.rows = rows;
    this.version = version;
    this.draw();
  }

  schedule() {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW_PX) - OVERSCAN);
    const last = Math.min(this.rows.length, first + Math.ceil(this.element.clientHeight / ROW_PX) + 2 * OVERSCAN);
    this.above.firstChild.style.height = `${first * ROW_PX}px`;
    this.below.firstChild.style.height = `${(this.rows.length - last) * ROW_PX}px`;
    this.above.hidden = first === 0;
    this.below.hidden = last === this.rows.length;
    this.table.setAttribute("aria-rowcount", String(this.rows.length + 1));
    this.body.replaceChildren(this.above, ...this.rows.slice(first, last).map((row, i) => this.rowElement(row, first + i)), this.below);
  }

  rowElement(row, index) {
    const isNew = row.version > this.version;
    const cells = row.fields.map((value, i) => this.cell(value, this.columns[i]));
    return h("tr", { class: isNew ? "fresh" : "", "aria-rowindex": String(index + 2) }, cells);
  }

  cell(value, column) {
    const text = value === null ? "NULL" : String(value);
    const kind = column.type === "op" ? `op op-${{ "+": "in", "-": "out" }[text[0]]}` : this.cellClass(column);
    return h("td", { class: value === null ? `${kind} null` : kind, title: text.length > 40 ? text.slice(0, 2000) : null }, shown(text));
  }

  close() {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
  }
}
