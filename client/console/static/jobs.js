// The list of jobs.

import { get } from "./api.js";
import { byId, h } from "./dom.js";
import { clockTime, duration, stateClass, stateName } from "./format.js";

export class JobList {
  constructor() {
    this.pollMs = 2000;
    this.title = h("h2", {}, "Jobs");
    this.list = h("ul", { class: "job-list" });
    this.element = h("section", { class: "panel", "aria-label": "Jobs" }, h("div", { class: "panel-head" }, this.title), this.list);
    this.shown = "";
    this.list.append(h("li", { class: "empty loading" }, h("span", { class: "spinner", "aria-hidden": "true" }), "Loading jobs"));
  }

  async poll(signal) {
    const { jobs } = await get("/jobs/overview", { signal });
    countRunning(jobs);
    const now = JSON.stringify(jobs.map((j) => [j.jid, j.state, Math.floor(j.duration / 1000)]));
    if (now === this.shown) return;
    this.shown = now;
    const sorted = [...jobs].sort((a, b) => (a["end-time"] < 0 ? 0 : 1) - (b["end-time"] < 0 ? 0 : 1) || b["start-time"] - a["start-time"]);
    const focused = document.activeElement?.dataset?.job;
    this.list.replaceChildren(...(sorted.length === 0 ? [noJobs()] : sorted.map(jobElement)));
    if (focused) this.list.querySelector(`[data-job="${CSS.escape(focused)}"]`)?.focus();
  }
}

export function countRunning(jobs) {
  const running = jobs.filter((job) => job["end-time"] < 0).length;
  const badge = byId("running-jobs");
  badge.hidden = running === 0;
  badge.textContent = String(running);
  badge.setAttribute("aria-label", `${running} running`);
}

const noJobs = () =>
  h("li", { class: "empty" }, h("p", { class: "empty-title" }, "No jobs yet"), h("p", {}, "Queries and INSERT statements run as jobs and are listed here."));

function jobElement(job) {
  return h("li", {},
    h("a", { class: "job-row", href: `#/jobs/${job.jid}`, data: { job: job.jid } },
      h("span", { class: `state ${stateClass(job.state)}` }, stateName(job.state)),
      h("span", { class: "job-name", title: job.name }, job.name),
      h("span", { class: "job-facts" }, `${clockTime(job["start-time"])} · ${duration(job.duration)} · ${tasksText(job)}`)));
}

function tasksText(job) {
  const { total, running, finished } = job.tasks;
  return job["end-time"] < 0 ? `${running} of ${total} tasks running` : `${finished} of ${total} tasks finished`;
}
