// A worker: given the servers that lead when this one is lost, then asked with null for the first of them that is ready.

const TIMEOUT_MS = 3000;

let others = [];
let isAsking = false;

async function ask() {
  if (isAsking) return;
  isAsking = true;
  for (const url of others) {
    try {
      const answer = await fetch(`${url}/ready`, { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(TIMEOUT_MS) });
      if (answer.ok) {
        postMessage(url);
        break;
      }
    } catch {
      // It is not there, or waits.
    }
  }
  isAsking = false;
}

addEventListener("message", ({ data }) => {
  if (data === null) ask();
  else others = data;
});
