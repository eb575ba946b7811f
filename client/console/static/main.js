// Starts the page: token, session, views.

import { configure, get, hasToken, request, setToken } from "./api.js";
import { byId, h, setText } from "./dom.js";
import { JobPanel } from "./job.js";
import { JobList, countRunning } from "./jobs.js";
import { about, handle, keepAlive } from "./session.js";
import { TaskManagerList } from "./taskmanagers.js";
import { Workspace } from "./workspace.js";

const RETRY_MS = 3000;
const SERVERS_MS = 10000;
const WIDE = matchMedia("(min-width: 1000px)");

// --- connection

function showConnection(isReachable) {
  byId("connection").dataset.state = isReachable ? "good" : "bad";
  setText(byId("connection-text"), isReachable ? "Connected" : "Server not reachable");
  if (!isReachable) moveOn();
}

// The worker that asks the servers that lead when this one is lost: the page goes to the first that is ready.
let servers = null;
let known = "";

function moveOn() {
  servers?.postMessage(null);
}

async function watchServers() {
  const { others } = await about();
  if (String(others) !== known) {
    known = String(others);
    servers?.terminate();
    servers = new Worker("/console/servers.js");
    servers.addEventListener("message", ({ data: url }) => location.replace(`${url}/${location.hash}`));
    servers.postMessage(others);
  }
}

let asking = null;

function askToken(wasWrong) {
  asking ??= new Promise((resolve) => {
    const dialog = byId("token-dialog");
    setText(byId("token-error"), wasWrong && hasToken() ? "The server does not accept this token." : "");
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    byId("token-form").addEventListener("submit", () => {
      setToken(byId("token").value.trim());
      byId("token").value = "";
      asking = null;
      resolve();
    }, { once: true });
    if (!dialog.open) dialog.showModal();
  });
  return asking;
}

// --- the panel at the side: one view at a time, polled while the page is visible

let current = null;

class Polled {
  constructor(view) {
    this.view = view;
    this.abort = new AbortController();
    this.timer = 0;
    view.onChange = () => this.now();
    this.now();
  }

  now() {
    clearTimeout(this.timer);
    this.run();
  }

  async run() {
    const number = (this.number = (this.number ?? 0) + 1);
    let pauseMs = RETRY_MS;
    try {
      if (!document.hidden) await this.view.poll(this.abort.signal);
      pauseMs = this.view.pollMs;
      this.notice(null);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.notice(error);
    }
    if (number === this.number && pauseMs > 0 && !this.abort.signal.aborted) this.timer = setTimeout(() => this.run(), pauseMs);
  }

  notice(error) {
    const shown = this.view.element.querySelector(".panel-error");
    if (error === null) shown?.remove();
    else if (shown === null) this.view.element.prepend(h("p", { class: "panel-error error-text", role: "alert" }, error.message));
    else setText(shown, error.message);
  }

  stop() {
    this.abort.abort();
    clearTimeout(this.timer);
  }
}

function route() {
  const path = location.hash.replace(/^#\/?/, "");
  const job = /^jobs\/([0-9a-f]{32})$/.exec(path);
  const view = path === "" ? "sql" : path === "taskmanagers" ? "taskmanagers" : "jobs";
  document.body.dataset.view = view;
  // Where both panes are visible, the SQL view shows the jobs beside it.
  for (const link of document.querySelectorAll(".views a")) link.toggleAttribute("aria-current", link.dataset.view === view);
  if (view === "sql" && !WIDE.matches) {
    current?.stop();
    current = null;
    byId("side").replaceChildren();
    return;
  }
  const key = job ? job[1] : view === "sql" ? "jobs" : view;
  if (current?.key === key) return;
  current?.stop();
  const made = job ? new JobPanel(job[1]) : key === "taskmanagers" ? new TaskManagerList() : new JobList();
  byId("side").replaceChildren(made.element);
  byId("side").scrollTop = 0;
  current = new Polled(made);
  current.key = key;
}

async function watchJobs() {
  // The badge of running jobs, where the list that counts them is not shown.
  if (!document.hidden && current?.key !== "jobs") {
    await get("/jobs/overview").then(({ jobs }) => countRunning(jobs)).catch(() => {});
  }
  setTimeout(watchJobs, RETRY_MS);
}

async function start() {
  configure({ onUnauthorized: askToken, onReachable: showConnection });
  addEventListener("hashchange", route);
  WIDE.addEventListener("change", () => { if (current === null || location.hash === "" || location.hash === "#/") route(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) current?.now(); });
  const { hasEditor, version } = await about();
  document.querySelector(".brand").title = `sqlstream ${version}`;
  const workspace = new Workspace(() => current?.now());
  await workspace.start(hasEditor);
  await request("GET", "/overview");
  route();
  keepAlive();
  watchJobs();
  watchServers().catch(() => {});
  setInterval(() => watchServers().catch(() => {}), SERVERS_MS);
  handle().catch((error) => setText(byId("connection-text"), error.message));
  document.body.dataset.ready = "true";
}

start().catch((error) => {
  showConnection(false);
  byId("results").replaceChildren(h("div", { class: "failure", role: "alert" }, h("p", { class: "failure-title" }, "The console cannot start"), h("p", {}, error.message)));
});
