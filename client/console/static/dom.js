// Elements made of text and attributes. Data only ever becomes text: nothing here parses HTML.

// Control, direction and invisible characters, as in sqlstream/terminal_text.py: names and data could hide or turn round what
// stands beside them. Joiners (U+200C, U+200D) are parts of words and emoji.
const HARMFUL = "\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\u200b\\u2060\\ufeff\\u2028\\u2029";
const IN_LINES = new RegExp(`[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f${HARMFUL}]`, "g");
const IN_A_LINE = new RegExp(`[\\x00-\\x1f\\x7f-\\x9f${HARMFUL}]`, "g");
const SHORT = { "\n": "\\n", "\t": "\\t", "\r": "\\r" };

function escaped(character) {
  const code = character.charCodeAt(0);
  return SHORT[character] ?? (code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`);
}

// The text with such characters as escapes; line breaks and tabs stay.
export const shownLines = (text) => text.replace(IN_LINES, escaped);

// The same on one line.
export const shown = (text) => text.replace(IN_A_LINE, escaped);

const SHOWN_ATTRIBUTES = new Set(["title", "aria-label", "placeholder"]);

const child = (value) => (typeof value === "string" ? shownLines(value) : value);

// Texts are shown with their harmful characters as escapes; a text node stays as it is.
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "class") element.className = value;
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name in element && typeof value === "boolean") element[name] = value;
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, SHOWN_ATTRIBUTES.has(name) ? shownLines(String(value)) : value);
  }
  element.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false).map(child));
  return element;
}

export function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes ?? {})) element.setAttribute(name, value);
  element.append(...children.map(child));
  return element;
}

export const byId = (id) => document.getElementById(id);

// Replace the children only where something has changed, so that focus and selection stay.
export function setText(element, text) {
  const said = shownLines(String(text));
  if (element.textContent !== said) element.textContent = said;
}
