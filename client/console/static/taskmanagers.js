// The TaskManagers and what they use.

import { get } from "./api.js";
import { h, setText } from "./dom.js";
import { size } from "./format.js";

const METRICS = "Status.JVM.CPU.Load,Status.JVM.Memory.NonHeap.Used,Status.JVM.Threads.Count";

export class TaskManagerList {
  constructor() {
    this.pollMs = 2000;
    this.facts = h("p", { class: "job-facts" });
    this.list = h("ul", { class: "tm-list" }, h("li", { class: "empty loading" }, h("span", { class: "spinner", "aria-hidden": "true" }), "Loading TaskManagers"));
    this.element = h("section", { class: "panel", "aria-label": "TaskManagers" }, h("div", { class: "panel-head" }, h("h2", {}, "TaskManagers")), this.facts, this.list);
  }

  async poll(signal) {
    const { taskmanagers } = await get("/taskmanagers", { signal });
    const found = await Promise.all(taskmanagers.map(async (tm) => {
      const metrics = await get(`/taskmanagers/${encodeURIComponent(tm.id)}/metrics?get=${METRICS}`, { signal }).catch(() => []);
      return [tm, Object.fromEntries(metrics.map((m) => [m.id, Number(m.value)]))];
    }));
    const [free, slots] = [sum(taskmanagers, "freeSlots"), sum(taskmanagers, "slotsNumber")];
    setText(this.facts, found.length === 0 ? "" : `${slots - free} of ${slots} slots in use`);
    this.list.replaceChildren(...(found.length === 0 ? [none()] : found.map(([tm, metrics]) => element(tm, metrics))));
  }
}

const sum = (list, key) => list.reduce((total, item) => total + item[key], 0);

const none = () => h("li", { class: "empty" }, h("p", { class: "empty-title" }, "No TaskManagers"), h("p", {}, "They start with the first job that needs them."));

function element(tm, metrics) {
  const used = tm.slotsNumber - tm.freeSlots;
  const facts = [`${used} of ${tm.slotsNumber} slots`, `${tm.assignedTasks} tasks`];
  if (tm.blocked) facts.push("host blocked after failures");
  if ("Status.JVM.CPU.Load" in metrics) facts.push(`CPU ${Math.round(metrics["Status.JVM.CPU.Load"] * tm.hardware.cpuCores * 100)} %`);
  if ("Status.JVM.Memory.NonHeap.Used" in metrics) facts.push(size(metrics["Status.JVM.Memory.NonHeap.Used"]));
  if ("Status.JVM.Threads.Count" in metrics) facts.push(`${metrics["Status.JVM.Threads.Count"]} threads`);
  const slots = h("span", { class: "slots", role: "img", "aria-label": `${used} of ${tm.slotsNumber} slots in use` }, Array.from({ length: Math.min(tm.slotsNumber, 64) }, (_, i) => h("i", { class: i < used ? "used" : "" })));
  return h("li", { class: "tm" }, h("span", { class: "tm-name" }, tm.id), slots, h("span", { class: "job-facts" }, facts.join(" · ")));
}
