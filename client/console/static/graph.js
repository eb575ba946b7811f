// The graph of a job: layers from sources to sinks, one card per vertex.

import { h, setText, svg } from "./dom.js";
import { count, rate, size, stateClass, stateName, watermark } from "./format.js";

const CARD = { width: 268, height: 150 };
const GAP = { x: 28, y: 46 };
const SHARES = ["busy", "backpressured", "idle"];

// Each node's layer is behind all its inputs; within a layer nodes stand below their inputs' middle.
// nodes: [{ id, inputs: [{ id }] }] in topological order. Returns { places: id -> { x, y }, width, height }.
export function layout(nodes) {
  const layerOf = new Map();
  for (const node of nodes) {
    layerOf.set(node.id, Math.max(-1, ...node.inputs.map((input) => layerOf.get(input.id) ?? -1)) + 1);
  }
  const layers = [];
  for (const node of nodes) (layers[layerOf.get(node.id)] ??= []).push(node);
  const order = new Map();
  for (const layer of layers) {
    const middle = (node) => {
      const known = node.inputs.map((input) => order.get(input.id)).filter((place) => place !== undefined);
      return known.length === 0 ? 0 : known.reduce((a, b) => a + b, 0) / known.length;
    };
    layer.sort((a, b) => middle(a) - middle(b));
    layer.forEach((node, i) => order.set(node.id, (i + 0.5) / layer.length));
  }
  const widest = Math.max(1, ...layers.map((layer) => layer.length));
  const width = widest * (CARD.width + GAP.x) - GAP.x;
  const places = new Map();
  layers.forEach((layer, row) => {
    const left = (width - layer.length * (CARD.width + GAP.x) + GAP.x) / 2;
    layer.forEach((node, i) => places.set(node.id, { x: left + i * (CARD.width + GAP.x), y: row * (CARD.height + GAP.y) }));
  });
  return { places, width, height: layers.length * (CARD.height + GAP.y) - GAP.y };
}

export class Graph {
  // `onSelect` is called with the id of the vertex whose card is pressed.
  constructor(plan, onSelect) {
    const { places, width, height } = layout(plan.nodes);
    this.cards = new Map(plan.nodes.map((node) => [node.id, new Card(node, places.get(node.id), onSelect)]));
    const edges = plan.nodes.flatMap((node) => node.inputs.map((input) => edge(places.get(input.id), places.get(node.id), input.ship_strategy)));
    const lines = svg("svg", { class: "edges", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, ...edges);
    const stage = h("div", { class: "stage" }, lines, h("ul", { class: "cards", "aria-label": "Vertices, from sources to sinks" }, [...this.cards.values()].map((card) => card.element)));
    stage.style.width = `${width}px`;
    stage.style.height = `${height}px`;
    this.element = h("div", { class: "graph", tabindex: "0", role: "region", "aria-label": "Graph of the job" }, stage);
  }

  // vertices: those of the job's details; figures: id -> metrics by name.
  update(vertices, figures, nowMs) {
    for (const vertex of vertices) this.cards.get(vertex.id)?.update(vertex, figures.get(vertex.id), nowMs);
  }

  select(id) {
    for (const [own, card] of this.cards) card.button.setAttribute("aria-pressed", String(own === id));
  }
}

function edge(from, to, label) {
  const [x1, y1] = [from.x + CARD.width / 2, from.y + CARD.height];
  const [x2, y2] = [to.x + CARD.width / 2, to.y];
  const middle = (y1 + y2) / 2;
  const path = svg("path", { d: `M${x1},${y1} C${x1},${middle} ${x2},${middle} ${x2},${y2 - 5}`, class: "edge" });
  const tip = svg("path", { d: `M${x2 - 4.5},${y2 - 7} L${x2},${y2} L${x2 + 4.5},${y2 - 7} Z`, class: "edge-tip" });
  const text = svg("text", { x: (x1 + x2) / 2 + 8, y: middle + 4, class: "edge-label" }, label.toLowerCase());
  return svg("g", {}, path, tip, text);
}

export const shownName = (name) => name.replaceAll(" -> ", " → ");

class Card {
  constructor(node, place, onSelect) {
    this.node = node;
    this.rate = h("span", { class: "card-rate" }, "–");
    this.records = h("span", { class: "card-records" });
    this.state = h("span", { class: "state wait" });
    this.shares = SHARES.map((name) => h("span", { class: `share ${name}` }));
    this.shareTexts = SHARES.map(() => h("span", {}));
    this.sharesText = h("span", { class: "card-line card-shares" }, this.shareTexts);
    this.bar = h("span", { class: "shares", "aria-hidden": "true" }, this.shares);
    this.lag = h("span", { class: "card-lag" });
    this.stateSize = h("span", { class: "card-state-size" });
    this.name = h("span", { class: "card-name" });
    this.parallelism = h("span", { class: "card-parallelism", title: "parallelism" }, `×${node.parallelism}`);
    this.button = h("button", { type: "button", class: "card", "aria-pressed": "false", data: { vertex: node.id }, on: { click: () => onSelect(node.id) } },
      h("span", { class: "card-head" }, this.name, this.parallelism), h("span", { class: "card-line" }, this.rate, this.records), this.bar, this.sharesText,
      h("span", { class: "card-line small" }, h("span", {}, "watermark ", this.lag), h("span", {}, "state ", this.stateSize)));
    this.element = h("li", {}, this.button);
    this.element.style.transform = `translate(${place.x}px, ${place.y}px)`;
    this.element.style.width = `${CARD.width}px`;
    this.element.style.height = `${CARD.height}px`;
  }

  update(vertex, figures, nowMs) {
    setText(this.name, shownName(vertex.name));
    this.name.title = vertex.name;
    this.button.dataset.state = stateClass(vertex.status);
    setText(this.records, `${count(recordsOf(vertex, figures))} rows · ${stateName(vertex.status)}`);
    if (figures === undefined) return;
    const isLive = vertex.status === "RUNNING";
    setText(this.rate, isLive ? rate(throughput(vertex, figures)) : "–");
    const shares = SHARES.map((name) => (isLive ? shareOf(figures, name) : 0));
    shares.forEach((share, i) => { this.shares[i].style.width = `${share}%`; });
    SHARES.forEach((name, i) => setText(this.shareTexts[i], isLive ? `${Math.round(shares[i])}% ${name}` : ""));
    this.button.classList.toggle("hot", isLive && shares[0] >= 80);
    this.button.classList.toggle("pressed-back", isLive && shares[1] >= 50);
    const mark = watermark(watermarkOf(figures), nowMs);
    setText(this.lag, mark.lag ? `${mark.lag} behind` : mark.text);
    this.lag.title = mark.text;
    setText(this.stateSize, size(figures.stateBytes?.sum ?? 0));
  }
}

const METRIC = { busy: "busyTimeMsPerSecond", backpressured: "backPressuredTimeMsPerSecond", idle: "idleTimeMsPerSecond" };

export const shareOf = (figures, name) => (figures[METRIC[name]]?.avg ?? 0) / 10;

const over = (figures, ending) => Object.entries(figures).filter(([name]) => name === ending || name.endsWith(`.${ending}`)).map(([, value]) => value);

// What comes in from the network; a source has no such input: what its first operator counts stands in.
function incoming(vertex, figures, metric) {
  const head = vertex.name.split(" -> ")[0].replace(/[ .:,]/g, "_");
  const own = figures[metric]?.sum ?? 0;
  return own > 0 ? own : (figures[`${head}.${metric}`]?.sum ?? own);
}

export const throughput = (vertex, figures) => incoming(vertex, figures, "numRecordsInPerSecond");

const recordsOf = (vertex, figures) => Math.max(vertex.metrics["read-records"], incoming(vertex, figures ?? {}, "numRecordsIn"));

export function watermarkOf(figures) {
  const own = figures.currentInputWatermark?.min;
  const sent = over(figures, "currentOutputWatermark").map((f) => f.min);
  return own !== undefined && own > -9e18 ? own : sent.length > 0 ? Math.min(...sent) : own;
}

export const WANTED = /(?:^|\.)(?:numRecords(?:In|Out)(?:PerSecond)?|current(?:Input|Output)Watermark)$|^(?:busy|idle|backPressured)TimeMsPerSecond$|^stateBytes$/;
