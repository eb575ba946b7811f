// One job: its graph with live figures, the subtasks of a vertex, its exceptions.

import { ApiError, get, request } from "./api.js";
import { h, setText } from "./dom.js";
import { clockTime, count, duration, exact, size, stateClass, stateName, watermark } from "./format.js";
import { Graph, WANTED, shownName, throughput, watermarkOf } from "./graph.js";

const ENDED = new Set(["FINISHED", "FAILED", "CANCELED", "SUSPENDED"]);

export class JobPanel {
  constructor(id) {
    this.id = id;
    this.pollMs = 1000;
    this.graph = null;
    this.selected = null;
    this.figures = new Map();
    this.names = new Map();
    this.state = h("span", { class: "state wait" });
    this.title = h("h2", { class: "job-title" }, "Job");
    this.facts = h("p", { class: "job-facts" });
    this.cancel = h("button", { type: "button", hidden: true, on: { click: () => this.onCancel() } }, "Cancel job");
    this.diagnose = h("button", { type: "button", on: { click: () => this.onDiagnose() } }, "Diagnose");
    this.diagnosis = h("pre", { class: "diagnosis", tabindex: "0", "aria-label": "Diagnosis", "aria-live": "polite", hidden: true });
    this.problem = h("p", { class: "error-text", role: "alert" });
    this.exceptions = h("div", { class: "exceptions" });
    this.ledger = h("button", { type: "button", "aria-expanded": "false", on: { click: () => this.onLedger() } }, "Ledger");
    this.ledgerBox = h("div", { hidden: true, role: "region", "aria-label": "Ledger" });
    this.graphBox = h("div", {}, h("p", { class: "empty loading" }, h("span", { class: "spinner", "aria-hidden": "true" }), "Loading the job"));
    this.vertexBox = h("div", { class: "vertex" });
    this.legend = h("p", { class: "legend", "aria-hidden": "true", hidden: true }, ["busy", "backpressured", "idle"].map((name) => h("span", {}, h("i", { class: `share ${name}` }), name)));
    this.element = h("section", { class: "panel", "aria-label": "Job" },
      h("div", { class: "panel-head" }, h("a", { href: "#/jobs", class: "back", "aria-label": "All jobs" }, "←"), this.state, this.title, this.ledger, this.diagnose, this.cancel),
      this.facts, this.problem, this.diagnosis, this.ledgerBox, this.exceptions, this.legend, this.graphBox, this.vertexBox);
  }

  async poll(signal) {
    let job;
    try {
      job = await get(`/jobs/${this.id}`, { signal });
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return this.gone();
      throw error;
    }
    const [checkpoints, latency] = await Promise.all([
      get(`/jobs/${this.id}/checkpoints`, { signal }),
      get(`/jobs/${this.id}/metrics?get=endToEndLatency_median,endToEndLatency_p99`, { signal }), ...job.vertices.map((vertex) => this.measure(vertex, signal)),
    ]);
    this.show(job, checkpoints, latency);
    if (this.selected !== null) await this.showVertex(job, signal);
    if (!this.ledgerBox.hidden) await this.showLedger(signal);
    const isOver = ENDED.has(job.state);
    if (["FAILED", "FAILING", "RESTARTING"].includes(job.state)) await this.showExceptions(signal);
    // The figures of an ended job do not change any more.
    this.pollMs = isOver ? 10000 : 1000;
  }

  gone() {
    this.pollMs = 0;
    setText(this.title, "Unknown job");
    this.graphBox.replaceChildren(h("div", { class: "empty" }, h("p", { class: "empty-title" }, "The server does not know this job"), h("p", {}, "It may have ended long ago: only the latest jobs are remembered.")));
  }

  // One request per vertex: the names of metrics are asked for once, their values each time.
  async measure(vertex, signal) {
    const url = `/jobs/${this.id}/vertices/${vertex.id}/subtasks/metrics`;
    let names = this.names.get(vertex.id);
    if (names === undefined) {
      names = (await get(url, { signal })).map((metric) => metric.id).filter((name) => WANTED.test(name));
      if (names.length === 0) return;
      this.names.set(vertex.id, names);
    }
    const found = await get(`${url}?get=${encodeURIComponent(names.join(","))}`, { signal });
    this.figures.set(vertex.id, Object.fromEntries(found.map((metric) => [metric.id, metric])));
    // A watermark has no metric before it is there.
    if (!names.some((name) => name.endsWith("currentOutputWatermark"))) this.names.delete(vertex.id);
  }

  show(job, checkpoints, latency) {
    setText(this.title, job.name);
    this.title.title = job.name;
    setText(this.state, stateName(job.state));
    this.state.className = `state ${stateClass(job.state)}`;
    setText(this.facts, `${job.jid} · started ${clockTime(job["start-time"])} · ${duration(job.duration)}${checkpointsText(checkpoints, job.now)}${latencyText(latency)}`);
    this.cancel.hidden = ENDED.has(job.state);
    this.cancel.disabled = job.state === "CANCELLING";
    this.legend.hidden = false;
    if (this.graph === null) {
      this.plan = job.plan;
      this.graph = new Graph(job.plan, (id) => this.onSelect(id));
      this.graphBox.replaceChildren(this.graph.element);
    }
    this.graph.update(job.vertices, this.figures, job.now);
  }

  onSelect(id) {
    this.selected = this.selected === id ? null : id;
    this.graph.select(this.selected);
    if (this.selected === null) this.vertexBox.replaceChildren();
    this.onChange?.();
  }

  async showVertex(job, signal) {
    const vertex = await get(`/jobs/${this.id}/vertices/${this.selected}`, { signal });
    const node = this.plan.nodes.find((n) => n.id === this.selected);
    const figures = this.figures.get(this.selected) ?? {};
    const mark = watermark(watermarkOf(figures), job.now);
    this.vertexBox.replaceChildren(
      h("h3", {}, shownName(vertex.name)),
      h("p", { class: "job-facts" }, `watermark ${mark.text} · state ${size(figures.stateBytes?.sum ?? 0)} · ${count(Math.round(throughput(vertex, figures)))} rows/s`),
      h("pre", { class: "operators", tabindex: "0", "aria-label": "Operators" }, plainDescription(node.description)),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Subtasks" },
        table(["Subtask", "State", "Rows in", "Rows out", "Received", "Sent", "Busy", "TaskManager"], vertex.subtasks.map((s) => subtaskCells(s)))));
  }

  async showExceptions(signal) {
    const { exceptionHistory } = await get(`/jobs/${this.id}/exceptions`, { signal });
    const found = exceptionHistory.entries.flatMap((entry) => [entry, ...entry.concurrentExceptions]);
    this.exceptions.replaceChildren(...found.map((entry) =>
      h("details", { class: "exception", open: entry === found[0] },
        h("summary", {}, h("strong", {}, entry.exceptionName), ` ${entry.taskName ?? "job"} · ${clockTime(entry.timestamp)}`),
        h("pre", {}, entry.stacktrace))));
  }

  // What became of the rows of each operator, renewed while it is open.
  async showLedger(signal) {
    const found = await get(`/jobs/${this.id}/ledger`, { signal });
    this.ledgerBox.replaceChildren(
      h("p", { class: found.balanced ? "job-facts" : "error-text" }, ledgerText(found)),
      h("div", { class: "scroll", tabindex: "0" }, table(["Operator", "Rows in", "Rows out", "Became", "Adds up"], found.operators.flatMap(ledgerRows))));
  }

  async onLedger() {
    this.ledgerBox.hidden = !this.ledgerBox.hidden;
    this.ledger.setAttribute("aria-expanded", String(!this.ledgerBox.hidden));
    setText(this.problem, "");
    try {
      if (!this.ledgerBox.hidden) await this.showLedger();
    } catch (error) {
      setText(this.problem, error.message);
    }
  }

  async onDiagnose() {
    this.diagnose.disabled = true;
    setText(this.problem, "");
    try {
      const { text } = await get(`/jobs/${this.id}/diagnosis`);
      setText(this.diagnosis, text);
      this.diagnosis.hidden = false;
    } catch (error) {
      setText(this.problem, error.message);
    }
    this.diagnose.disabled = false;
  }

  async onCancel() {
    this.cancel.disabled = true;
    setText(this.problem, "");
    try {
      await request("PATCH", `/jobs/${this.id}?mode=cancel`);
    } catch (error) {
      setText(this.problem, error.message);
    }
    this.onChange?.();
  }
}

// How long rows wait from source to sink, where the job measures it.
function latencyText(figures) {
  const [median, p99] = figures.map((figure) => count(Math.round(Number(figure.value))));
  return p99 === undefined ? "" : ` · latency ${median} ms, 99 % within ${p99} ms`;
}

// Up to when the rows of a job were added up, and whether none is missing.
export function ledgerText({ checkpoint, balanced, operators }) {
  if (operators.length === 0) return "The rows are added up at the first checkpoint, or at the end of the job.";
  return `The rows ${balanced ? "add up" : "do not add up"} ${checkpoint === null ? "at the end of the job" : `at checkpoint ${checkpoint}`}.`;
}

// One operator of a ledger, and below it the sides of a join: name, rows in and out, what else they became, and what adds up or is missing.
export function ledgerRows(operator) {
  const cells = (found, name, out) => {
    const parts = Object.entries(found.parts).map(([part, rows]) => `${part} ${exact(rows)}`);
    return [name, exact(found["rows-in"]), out, parts.join(", "), found.text || found.balance];
  };
  return [cells(operator, operator.name, exact(operator["rows-out"])), ...operator.sides.map((side) => cells(side, `${operator.name} ${side.name}`, ""))];
}

// The last checkpoint, its age and size, and what went wrong; nothing for a job without checkpoints.
export function checkpointsText({ counts, latest }, now) {
  const last = latest.completed;
  const parts = last === null ? [] : [`checkpoint ${last.id}, ${duration(Math.max(0, now - last.latest_ack_timestamp))} ago, ${size(last.state_size)}`];
  if (counts.failed > 0) parts.push(`${count(counts.failed)} failed`);
  if (counts.restored > 0) parts.push(`went on from a checkpoint ${count(counts.restored)}×`);
  return parts.map((part) => ` · ${part}`).join("");
}

const subtaskCells = (s) => [
  String(s.subtask), stateName(s.status), count(s.metrics["read-records"]), count(s.metrics["write-records"]), size(s.metrics["read-bytes"]),
  size(s.metrics["write-bytes"]), duration(s.metrics["accumulated-busy-time"]), s["taskmanager-id"],
];

export const table = (heads, rows) =>
  h("table", { class: "facts" }, h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell))))));

// The plan's texts are HTML, as Flink's are: line breaks and escaped characters.
const ENTITIES = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'", "&amp;": "&" };

export const plainDescription = (text) => text.split("<br/>").join("\n").replace(/&(?:lt|gt|quot|#x27|amp);/g, (entity) => ENTITIES[entity]).trim();
