// Requests to the server, with its token and its errors.

const TOKEN = "sqlstream.token";
export const DETAILED = "application/json, application/vnd.sqlstream+json";

export class ApiError extends Error {
  // `detail` is the server's description for programs: code, message, hint, line, column, span.
  constructor(status, body) {
    const errors = Array.isArray(body?.errors) ? body.errors : [];
    super(body?.error?.message ?? cleaned(errors[errors.length - 1]) ?? `the server answered with status ${status}`);
    this.status = status;
    this.detail = body?.error ?? null;
  }
}

function cleaned(text) {
  if (typeof text !== "string") return undefined;
  const match = /Caused by: (?:error\[[A-Z0-9]+\]: )?([\s\S]*?)(?:\nEnd of exception|$)/.exec(text);
  return (match ? match[1] : text).trim();
}

let onUnauthorized = () => Promise.reject(new Error("a token is needed"));
let onReachable = () => {};

export function configure(handlers) {
  onUnauthorized = handlers.onUnauthorized;
  onReachable = handlers.onReachable;
}

export const setToken = (token) => sessionStorage.setItem(TOKEN, token);
export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;

export async function request(method, path, { body, signal, accept = DETAILED, keepalive = false } = {}) {
  const headers = { accept };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method, headers, signal, keepalive, cache: "no-store", body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name !== "AbortError") onReachable(false);
    throw error.name === "AbortError" ? error : new Error("the server cannot be reached");
  }
  onReachable(true);
  if (response.status === 401) {
    await onUnauthorized(token !== null);
    return request(method, path, { body, signal, accept, keepalive });
  }
  if (!response.ok) throw new ApiError(response.status, await readJson(response));
  return response;
}

async function readJson(response) {
  try {
    return await response.json();
  } catch {
    return null;
  }
}

export const get = async (path, options) => (await request("GET", path, options)).json();
export const post = async (path, body, options) => (await request("POST", path, { body, ...options })).json();

// The server-sent events of a response as they come: { event, data }. Reading no further pushes back on the server.
export async function* events(path, signal) {
  const response = await request("GET", path, { signal, accept: "text/event-stream, application/vnd.sqlstream+json" });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split(/\r?\n\r?\n/);
      rest = parts.pop();
      for (const part of parts) {
        const found = parseEvent(part);
        if (found) yield found;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

export function parseEvent(text) {
  let event = "message";
  const data = [];
  for (const line of text.split(/\r?\n/)) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  return data.length === 0 ? null : { event, data: JSON.parse(data.join("\n")) };
}
