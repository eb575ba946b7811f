// Where the statements of a script begin and end, without parsing them: quotes, comments and statement sets are respected.

const OPEN_SET = /^\s*(?:EXECUTE|BEGIN)\s+STATEMENT\s+SET\b/i;
const END = /\bEND\s*$/i;

// [{ start, end, text }] without the semicolons; empty statements are left out.
export function statements(script) {
  const found = [];
  let start = 0;
  let bare = "";
  const add = (end) => {
    const raw = script.slice(start, end);
    if (bare.trim() !== "") {
      const lead = raw.length - raw.trimStart().length;
      found.push({ start: start + lead, end: start + raw.trimEnd().length, text: raw.trim() });
    }
    start = end + 1;
    bare = "";
  };
  let i = 0;
  while (i < script.length) {
    const c = script[i];
    if (c === "'" || c === '"' || c === "`") {
      const close = closing(script, i);
      bare += "'";
      i = close;
    } else if (c === "-" && script[i + 1] === "-") {
      const line = script.indexOf("\n", i);
      i = line < 0 ? script.length : line;
    } else if (c === "/" && script[i + 1] === "*") {
      const end = script.indexOf("*/", i + 2);
      i = end < 0 ? script.length : end + 2;
    } else if (c === ";") {
      if (OPEN_SET.test(bare) && !END.test(bare)) bare += c;
      else add(i);
      i += 1;
    } else {
      bare += c;
      i += 1;
    }
  }
  add(script.length);
  return found;
}

// The index behind the quote that closes the one at `start`; a doubled quote stands for itself.
function closing(script, start) {
  const quote = script[start];
  let i = start + 1;
  while (i < script.length) {
    if (script[i] === quote) {
      if (script[i + 1] !== quote) return i + 1;
      i += 1;
    }
    i += 1;
  }
  return script.length;
}

// The statement that a cursor stands in or directly behind, else the one before it, else the first.
export function statementAt(script, position) {
  const all = statements(script);
  return all.find((s) => position >= s.start && position <= s.end + 1)
    ?? [...all].reverse().find((s) => s.end <= position) ?? all[0] ?? null;
}

// The server counts characters, a browser UTF-16 units.
export const unitsOf = (text, characters) => [...text].slice(0, characters).join("").length;
export const charactersOf = (text, units) => [...text.slice(0, units)].length;
