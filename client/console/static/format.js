// Numbers, sizes, durations and times as people read them.

const counts = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const exact = (value) => counts.format(value);
export const count = (value) => (Math.abs(value) < 10000 ? counts.format(value) : short.format(value));

export const rate = (value) => `${count(value < 10 ? Math.round(value * 10) / 10 : Math.round(value))}/s`;

export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function duration(ms) {
  if (ms < 0) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  const days = Math.floor(hours / 24);
  return days < 730 ? `${days} d` : `${Math.floor(days / 365)} y`;
}

export const clockTime = (ms) => (ms < 0 ? "–" : new Date(ms).toLocaleTimeString("en-GB"));

export const dateTime = (ms) => {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? "–" : date.toISOString().replace("T", " ").slice(0, 19);
};

// Watermarks at the ends of the 64-bit range say that there is none yet, or that none follows.
export function watermark(value, nowMs) {
  if (value === undefined || value < -9e18) return { text: "none", lag: "" };
  if (value > 9e18) return { text: "end of input", lag: "" };
  return { text: dateTime(value), lag: duration(Math.max(0, nowMs - value)) };
}

export const stateClass = (state) =>
  ({ RUNNING: "good", FINISHED: "done", FAILED: "bad", FAILING: "bad", CANCELED: "off", CANCELLING: "off", CANCELING: "off" })[state] ?? "wait";

export const stateName = (state) => state.charAt(0) + state.slice(1).toLowerCase();
