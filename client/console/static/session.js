// The gateway session of this page, and the statements that run in it.

import { ApiError, events, get, post, request } from "./api.js";

const HANDLE = "sqlstream.session";
const HEARTBEAT_MS = 60000;
const UNKNOWN_SESSION = "SS6020";

let opening = null;

export async function handle() {
  opening ??= open().catch((error) => {
    opening = null;
    throw error;
  });
  return opening;
}

async function open() {
  const kept = sessionStorage.getItem(HANDLE);
  if (kept !== null) {
    try {
      await post(`/v4/sessions/${kept}/heartbeat`, {});
      return kept;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
  }
  const { sessionHandle } = await post("/v4/sessions", { sessionName: "console", properties: {} });
  sessionStorage.setItem(HANDLE, sessionHandle);
  return sessionHandle;
}

function forget() {
  sessionStorage.removeItem(HANDLE);
  opening = null;
}

export function keepAlive() {
  setInterval(() => {
    if (opening !== null) opening.then((id) => post(`/v4/sessions/${id}/heartbeat`, {})).catch(() => {});
  }, HEARTBEAT_MS);
}

const isUnknownSession = (error) =>
  error instanceof ApiError && (error.detail?.code === UNKNOWN_SESSION || (error.status !== 401 && /session .*(does not exist|not known|unknown|closed)/i.test(error.message)));

// One statement from its submission to its end. `operation` is there once the server has accepted it.
export class Running {
  constructor(statement) {
    this.statement = statement;
    this.abort = new AbortController();
    this.base = null;
    this.isCancelled = false;
    this.isSessionNew = false;
  }

  async *events() {
    const base = await this.submit();
    this.base = base;
    let hasEnded = false;
    try {
      if (this.isCancelled) return;
      for await (const found of events(`${base}/result/stream?rowFormat=PLAIN_TEXT`, this.abort.signal)) {
        hasEnded = found.event === "end" || found.event === "error";
        yield found;
        if (hasEnded) return;
      }
    } finally {
      if (!hasEnded) this.abort.abort();
      request("DELETE", `${base}/close`).catch(() => {});
    }
  }

  async submit() {
    const send = async () => {
      const session = await handle();
      const { operationHandle } = await post(`/v4/sessions/${session}/statements`, { statement: this.statement });
      return `/v4/sessions/${session}/operations/${operationHandle}`;
    };
    try {
      return await send();
    } catch (error) {
      if (!isUnknownSession(error)) throw error;
      forget();
      this.isSessionNew = true;
      return send();
    }
  }

  // Closing the operation cancels its job; rows that are under way are dropped.
  cancel() {
    this.isCancelled = true;
    if (this.base !== null) this.abort.abort();
  }
}

export async function complete(statement, position) {
  const sessionHandle = await handle();
  const { candidates } = await post("/console/complete-statement", { sessionHandle, statement, position });
  return candidates;
}

export const about = () => get("/console/about.json");
